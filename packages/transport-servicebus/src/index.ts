// Throws while loading, not at first use: a connection string for this broker must fail before anything is stored for it.
throw new Error(
  '@whizbang/transport-servicebus: the Azure Service Bus transport is not in this version of Whizbang yet. ' +
    'The transports in this version are RabbitMQ (amqp://…, amqps://…) and the in-process one (memory:).',
);

export {};
