/** A message as the broker passed it on. */
export interface SeenMessage {
  readonly messageId: string;
  readonly type: string;
  readonly body: string;
}

/** A consumer that knows nothing of Whizbang: it gets what a destination takes, in its order, from its creation on. */
export interface BrokerWitness extends AsyncDisposable {
  readonly seen: readonly SeenMessage[];
}

/** A broker that scenarios run on. What they know of it is here; the application's code knows its connection string only. */
export interface ScenarioBroker {
  /** The connection string. */
  readonly url: string;
  witness(destination: string): Promise<BrokerWitness>;
}

export interface BrokerKind {
  /** For the names of tests. */
  readonly name: string;
  /** A place of one's own on the broker that all tests share. */
  shared(): Promise<ScenarioBroker>;
}
