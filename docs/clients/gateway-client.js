// Sends each event once to a Sluice gateway. A batch has 100 events or 5 s of them, and is kept until `ok`.
// url: wss://HOST/v1/streams/STREAM. Only one client may use a source at a time: give each tab its own, as
// by sessionStorage.source ??= crypto.randomUUID(). Requires a browser, or Node 22 or newer.
// `refused(reason, events)` is called for rejected events, `warned(message)` for other problems.
class GatewayClient {
  constructor(url, source, {token = "", most = 100, seconds = 5, ...callbacks} = {}) {
    Object.assign(this, {url, source, most, refused: console.error, warned: console.warn}, callbacks);
    this.protocols = ["sluice.v2", ...(token ? [`bearer.${token}`] : [])];
    this.events = []; // not in a batch yet
    this.kept = []; // batches without `ok`; the first has the number `last` + 1
    this.last = null; // the last number that has `ok`, or that the gateway had already
    this.flight = []; // the sizes of sent batches of `kept`
    this.pause = 0; // ms before the next connection; grows until there is an `ok`
    this.connect(0);
    this.timer = setInterval(() => this.cut(true), seconds * 1000);
  }

  // event: {value: …} with `key`, `id`, `operation`, `timestamp` as needed.
  send(event) {
    if (this.isFenced) return this.giveUp([event]);
    this.events.push(event);
    this.cut(false);
  }

  // The number of events without `ok`.
  get waiting() {
    return this.events.length + this.kept.reduce((sum, batch) => sum + batch.length, 0);
  }

  cut(isDue) {
    while (this.events.length >= this.most || (isDue && this.events.length)) {
      this.kept.push(this.events.splice(0, this.most));
    }
    this.push();
  }

  connect(wait) {
    [this.socket, this.window] = [null, 0];
    setTimeout(() => {
      const socket = (this.socket = new WebSocket(this.url, this.protocols));
      const mine = (act) => (event) => socket === this.socket && act(event);
      socket.onopen = mine(() => this.say({type: "connect", sourceId: this.source, protocolVersion: 2}));
      socket.onmessage = mine(({data}) => this.hear(JSON.parse(data)));
      // Some versions of Node report a failed connection only by an error event, browsers by both.
      socket.onclose = socket.onerror = mine(() => this.again(0));
    }, wait);
  }

  again(wait) {
    const old = this.socket;
    this.connect(Math.max(wait, this.pause));
    this.pause = Math.min(30000, 2 * this.pause || 100);
    old.close();
  }

  say(message) {
    this.socket.send(JSON.stringify(message));
  }

  // At most `window` batches are sent at once, and at most the bytes of one maximum batch.
  push() {
    while (this.flight.length < Math.min(this.kept.length, this.window ?? 0)) {
      const [at, events] = [this.flight.length, this.kept[this.flight.length]];
      const batch = JSON.stringify({type: "cdc_batch", sequenceNumber: this.last + at + 1, events});
      const bytes = new TextEncoder().encode(batch).length;
      if (bytes > this.maxBytes) this.halve(at);
      else if (at && this.flight.reduce((sum, each) => sum + each, bytes) > this.maxBytes) return;
      else {
        this.socket.send(batch);
        this.flight.push(bytes);
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
    this.refused(`rejected: ${why}`, this.kept.splice(at, 1)[0]);
  }

  hear(answer) {
    if (answer.type === "status") {
      this.goOnAt(this.last === null ? answer.lastAckSequence : Math.min(this.last, answer.lastAckSequence));
      // Batches without `ok` are sent again: the gateway recognizes them by their content.
      [this.flight, this.window, this.maxBytes] = [[], answer.window, answer.maxBatchBytes];
    } else if (answer.type === "ack" && ["ok", "buffered", "duplicate"].includes(answer.status)) {
      const done = Math.max(0, answer.sequenceNumber - this.last);
      if (done) [this.last, this.pause] = [this.last + done, 0];
      for (const list of [this.kept, this.flight]) list.splice(0, done);
    } else if (answer.type === "nack") {
      return this.turnedAway(answer, answer.details);
    }
    this.push();
  }

  turnedAway({reason, sequenceNumber: number}, {expected, gateway, message, retryAfterMs}) {
    if (reason === "fenced") {
      this.isFenced = true;
      clearInterval(this.timer);
      [this.socket, this.window] = [null, 0];
      return this.giveUp([...this.kept.splice(0).flat(), ...this.events.splice(0)]);
    }
    if (gateway) this.url = gateway.replace("http", "ws");
    else if (reason === "invalid_format" && number > this.last) this.refuse(number - this.last - 1, message);
    // Another batch has the number of our first, or the gateway is behind.
    else if (expected && (number === this.last + 1 || expected <= this.last)) this.goOnAt(expected - 1);
    else this.warned(`rejected: ${message}`);
    this.again(retryAfterMs ?? 0);
  }

  // Batches that were sent may be in Kafka.
  giveUp(events) {
    if (events.length) this.refused("no `ok` before another connection took over the source", events);
  }

  goOnAt(last) {
    if (last !== (this.last ?? last))
      this.warned(`the gateway has ${this.source} at ${last}, not at ${this.last}: continuing there`);
    this.last = last;
  }
}
