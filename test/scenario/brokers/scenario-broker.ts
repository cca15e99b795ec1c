/** A message as the broker passed it on, read as the CloudEvents binding of that broker says. */
export interface SeenMessage {
  readonly messageId: string;
  readonly type: string;
  readonly body: string;
  /** Context attributes by plain name, with `datacontenttype`. */
  readonly attributes: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
}

/** A consumer that knows nothing of Whizbang: it gets what a destination takes, in its order, from its creation on. */
export interface BrokerWitness extends AsyncDisposable {
  readonly seen: readonly SeenMessage[];
}

/** A CloudEvent that another program sends. */
export interface ForeignEvent {
  /** Without `datacontenttype`, which is `application/json`. */
  readonly attributes: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A broker that scenarios run on. What they know of it is here; the application's code knows its connection string only. */
interface ScenarioBroker {
  /** The connection string. */
  readonly url: string;
  witness(destination: string): Promise<BrokerWitness>;
  /** Sends a CloudEvent in binary mode with nothing but the broker's client. */
  send(destination: string, event: ForeignEvent): Promise<void>;
}

/** How many times faster the scenario of an outage goes by than the outage it stands for. */
export const outagePace = 15;

/** A broker that a scenario takes away and brings back; nobody else uses it. */
interface OutageBroker {
  readonly url: string;
  /** Options of its transport, in which every interval is shortened by {@link outagePace}. */
  readonly brokerOptions: Readonly<Record<string, unknown>>;
  /** To be called before anything is published; outlives the broker's absence. */
  witness(destination: string): Promise<OutageWitness>;
  /** Away at once, without a word to anybody. What it has confirmed is kept. */
  stop(): Promise<void>;
  /** Back under the same address. Resolves when it accepts connections. */
  start(): Promise<void>;
}

/** What a destination took, asked of the broker itself. */
export interface OutageWitness {
  /** Everything so far, in the broker's order, once it holds so many different messages. */
  seen(messages: number): Promise<readonly Pick<SeenMessage, 'messageId' | 'body'>[]>;
}

export interface BrokerKind {
  /** For the names of tests. */
  readonly name: string;
  /** A place of one's own on the broker that all tests share. */
  shared(): Promise<ScenarioBroker>;
  /** Ended with the test. */
  fragile(): Promise<OutageBroker>;
}
