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
export interface ScenarioBroker {
  /** The connection string. */
  readonly url: string;
  witness(destination: string): Promise<BrokerWitness>;
  /** Sends a CloudEvent in binary mode with nothing but the broker's client. */
  send(destination: string, event: ForeignEvent): Promise<void>;
}

export interface BrokerKind {
  /** For the names of tests. */
  readonly name: string;
  /** A place of one's own on the broker that all tests share. */
  shared(): Promise<ScenarioBroker>;
}
