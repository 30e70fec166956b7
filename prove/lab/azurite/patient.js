// Azure keeps an idle connection for minutes, Azurite for five seconds: its option for that has no effect.
// Arrow's client of Azure waits for more after an answer in chunks of 4,099 or 4,100 bytes in all, so that
// here each has its length before it.
const http = require("node:http");
const { createServer, ServerResponse } = http;
http.createServer = (...terms) => Object.assign(createServer(...terms), { keepAliveTimeout: 600_000 });

const { write, end } = ServerResponse.prototype;
ServerResponse.prototype.write = function (text, ...more) {
  if (this.headersSent || this.hasHeader("content-length") || typeof text !== "string") {
    return write.call(this, text, ...more);
  }
  this.kept = (this.kept ?? "") + text;
  return true;
};
ServerResponse.prototype.end = function (...terms) {
  if (this.kept === undefined) {
    return end.apply(this, terms);
  }
  this.setHeader("content-length", Buffer.byteLength(this.kept));
  return end.call(this, this.kept);
};
