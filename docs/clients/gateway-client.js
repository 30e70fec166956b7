// Sends events to a gateway of Sluice's, each once: 100 of them or 5 s make a batch, kept until `ok`.
// url: wss://HOST/v1/streams/STREAM. A source is one client at a time, under the same name for ever.
// It wants a browser, or Node from 22 on. `refused` is told why which events never will be taken.
class GatewayClient {
  constructor(url, source, {token = "", most = 100, seconds = 5, refused = console.error} = {}) {
    Object.assign(this, {url, source, most, seconds, refused});
    this.protocols = ["sluice.v1", ...(token ? [`bearer.${token}`] : [])];
    this.events = []; // not in a batch yet
    this.kept = []; // batches without `ok`; the first has the number `last` + 1
    this.last = null; // the last number that has `ok`, as the gateway says
    this.sent = 0; // the number of the last batch on its way
    this.wait = 1000; // ms before the next connection
    this.connect();
    this.timer = setInterval(() => this.cut(true), seconds * 1000);
  }

  // event: {value: …} with `key`, `id`, `operation`, `timestamp` as wanted.
  send(event) {
    this.events.push(event);
    this.cut(false);
  }

  // How many events the gateway has not said `ok` to.
  get waiting() {
    return this.events.length + this.kept.reduce((sum, batch) => sum + batch.length, 0);
  }

  cut(isDue) {
    while (this.events.length >= this.most || (isDue && this.events.length)) {
      this.kept.push(this.events.splice(0, this.most));
    }
    this.push();
  }

  connect(wait = 0) {
    this.socket = null;
    setTimeout(() => {
      const socket = (this.socket = new WebSocket(this.url, this.protocols));
      [this.window, this.wait] = [0, 1000];
      socket.onopen = () => this.say({type: "connect", sourceId: this.source, protocolVersion: 1});
      socket.onmessage = ({data}) => this.hear(JSON.parse(data));
      // Some versions of Node tell a connection that failed by an error alone, browsers by both.
      socket.onclose = socket.onerror = () => socket === this.socket && this.connect(this.wait);
    }, wait);
  }

  say(message) {
    this.socket.send(JSON.stringify(message));
  }

  push() {
    if (this.last === null || this.socket?.readyState !== WebSocket.OPEN) return;
    while (this.sent < this.last + Math.min(this.kept.length, this.window)) {
      const events = this.kept[this.sent - this.last];
      const batch = JSON.stringify({type: "cdc_batch", sequenceNumber: this.sent + 1, events});
      if (new TextEncoder().encode(batch).length > this.maxBytes) this.halve(this.sent - this.last);
      else {
        this.socket.send(batch);
        this.sent += 1;
      }
    }
  }

  halve(at) {
    const events = this.kept[at];
    const half = Math.ceil(events.length / 2);
    if (events.length > 1) this.kept.splice(at, 1, events.slice(0, half), events.slice(half));
    else this.refuse(at, `more than ${this.maxBytes} bytes`);
  }

  refuse(at, why) {
    this.refused(`not taken: ${why}`, this.kept.splice(at, 1)[0]);
  }

  hear(answer) {
    if (answer.type === "status") {
      this.heard(answer.lastAckSequence);
      this.sent = this.last; // its number wins: what it lacks is sent again
      [this.window, this.maxBytes] = [answer.window, answer.maxBatchBytes];
    } else if (answer.type === "ack" && ["ok", "buffered", "duplicate"].includes(answer.status)) {
      this.heard(answer.sequenceNumber);
    } else if (answer.type === "nack") {
      if (answer.details.gateway) this.url = answer.details.gateway.replace("http", "ws");
      else if (answer.reason === "invalid_format" && answer.sequenceNumber > this.last)
        this.refuse(answer.sequenceNumber - this.last - 1, answer.details.message);
      this.wait = answer.details.retryAfterMs ?? (answer.sequenceNumber ? 0 : 1000);
      this.socket.close(); // begin anew, where the gateway says
    }
    this.push();
  }

  heard(last) {
    this.kept.splice(0, Math.max(0, last - (this.last ?? last)));
    this.last = Math.max(last, this.last ?? 0);
  }
}
