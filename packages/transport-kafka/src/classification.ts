import { type ClassifiedCondition, MessageFailureReason } from '@whizbang/core/transport';

const reason = MessageFailureReason;

/** What the broker and kafkajs can say, and what it means for a message. `docs/errors.md` is made from it. */
export const classification = {
  unreachable: {
    condition:
      'KafkaJSConnectionError while connecting: ECONNREFUSED, ENOTFOUND, ETIMEDOUT, ECONNRESET, no answer in time',
    reason: reason.TransportNotReady,
    retryable: true,
  },
  tlsRefused: {
    condition: 'a TLS error of Node: CERT_HAS_EXPIRED, UNABLE_TO_VERIFY_LEAF_SIGNATURE, DEPTH_ZERO_SELF_SIGNED_CERT, …',
    reason: reason.SecurityContextEstablishmentFailure,
    retryable: false,
  },
  credentialsRefused: {
    condition:
      'KafkaJSSASLAuthenticationError, 58 SASL_AUTHENTICATION_FAILED, 93 UNACCEPTABLE_CREDENTIAL, 61 to 66 delegation tokens',
    reason: reason.SecurityContextEstablishmentFailure,
    retryable: false,
  },
  saslMechanismRefused: {
    condition: '33 UNSUPPORTED_SASL_MECHANISM, 34 ILLEGAL_SASL_STATE, connection closed by the server while logging in',
    reason: reason.SecurityContextEstablishmentFailure,
    retryable: false,
  },
  notAuthorized: {
    condition:
      '29 TOPIC_, 30 GROUP_, 31 CLUSTER_AUTHORIZATION_FAILED, 53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED, 54 SECURITY_DISABLED',
    reason: reason.SecurityContextEstablishmentFailure,
    retryable: false,
  },
  connectionLostInFlight: {
    condition: 'KafkaJSConnectionClosedError or KafkaJSConnectionError with a message sent and not answered',
    reason: reason.TransportException,
    retryable: true,
  },
  unansweredInTime: {
    condition: 'KafkaJSRequestTimeoutError: a request sent and not answered within requestTimeoutMs',
    reason: reason.TransportException,
    retryable: true,
  },
  partitionNotCovered: {
    condition: 'an answer that does not speak of the partition that was written',
    reason: reason.TransportException,
    retryable: true,
  },
  messageTooLarge: {
    condition:
      '10 MESSAGE_TOO_LARGE or 18 RECORD_LIST_TOO_LARGE for a batch of one message, or a message over maxMessageBytes',
    reason: reason.MessageBodyTooLarge,
    retryable: false,
  },
  throttled: {
    condition: '89 THROTTLING_QUOTA_EXCEEDED',
    reason: reason.Throttled,
    retryable: true,
  },
  noLeader: {
    condition:
      '5 LEADER_NOT_AVAILABLE, 6 NOT_LEADER_FOR_PARTITION, 8 BROKER_NOT_AVAILABLE, 9 REPLICA_NOT_AVAILABLE, 13, 41, 72, 74, 75, 77, 80, 83',
    reason: reason.TransportNotReady,
    retryable: true,
  },
  notEnoughReplicas: {
    condition: '19 NOT_ENOUGH_REPLICAS',
    reason: reason.TransportNotReady,
    retryable: true,
  },
  storageError: {
    condition: '56 KAFKA_STORAGE_ERROR',
    reason: reason.TransportNotReady,
    retryable: true,
  },
  noCoordinator: {
    condition: '14 COORDINATOR_LOAD_IN_PROGRESS, 15 COORDINATOR_NOT_AVAILABLE, 16 NOT_COORDINATOR',
    reason: reason.TransportNotReady,
    retryable: true,
  },
  unknownTopic: {
    condition: '3 UNKNOWN_TOPIC_OR_PARTITION: the topic is missing, and is not created (declare=false), or not yet',
    reason: reason.TransportNotReady,
    retryable: true,
  },
  metadataNotLoaded: {
    condition:
      'KafkaJSMetadataNotLoaded, KafkaJSBrokerNotFound, KafkaJSNoBrokerAvailableError, KafkaJSLockTimeout, KafkaJSGroupCoordinatorNotFound',
    reason: reason.TransportNotReady,
    retryable: true,
  },
  operationInProgress: {
    condition: '51 CONCURRENT_TRANSACTIONS, 60 REASSIGNMENT_IN_PROGRESS',
    reason: reason.TransportNotReady,
    retryable: true,
  },
  answeredTooLate: {
    condition: '7 REQUEST_TIMED_OUT, 20 NOT_ENOUGH_REPLICAS_AFTER_APPEND: perhaps written',
    reason: reason.TransportException,
    retryable: true,
  },
  corruptMessage: {
    condition: '2 CORRUPT_MESSAGE',
    reason: reason.TransportException,
    retryable: true,
  },
  producerState: {
    condition:
      '45 OUT_OF_ORDER_SEQUENCE_NUMBER, 47 INVALID_PRODUCER_EPOCH, 48, 49, 59 UNKNOWN_PRODUCER_ID, 90 PRODUCER_FENCED, 120',
    reason: reason.TransportException,
    retryable: true,
  },
  membershipLost: {
    condition:
      '22 ILLEGAL_GENERATION, 25 UNKNOWN_MEMBER_ID, 27 REBALANCE_IN_PROGRESS, 82 FENCED_INSTANCE_ID: the deliveries go to another instance',
    reason: reason.TransportException,
    retryable: false,
  },
  offsetOutOfRange: {
    condition: '1 OFFSET_OUT_OF_RANGE: what was to be received next has been deleted by retention',
    reason: reason.TransportException,
    retryable: false,
  },
  invalidRecord: {
    condition: '87 INVALID_RECORD: a message without a key to a compacted topic, for example',
    reason: reason.ValidationError,
    retryable: false,
  },
  clockRefused: {
    condition:
      '32 INVALID_TIMESTAMP: the clock of this machine, or the broker’s, is wrong, and the broker wants a time',
    reason: reason.TransportException,
    retryable: true,
  },
  invalidRequest: {
    condition: '17 INVALID_TOPIC_EXCEPTION, 42 INVALID_REQUEST, 12, 21, 23, 24, 26, 28, 37 to 40, 43, 76',
    reason: reason.ValidationError,
    retryable: false,
  },
  policyViolation: {
    condition: '44 POLICY_VIOLATION: the broker’s policy forbids such a topic',
    reason: reason.ValidationError,
    retryable: false,
  },
  incompatibleBroker: {
    condition:
      '35 UNSUPPORTED_VERSION, KafkaJSServerDoesNotSupportApiKey: a broker that kafkajs cannot talk to, or a controller’s port',
    reason: reason.ValidationError,
    retryable: false,
  },
  unsupportedCompression: {
    condition: 'KafkaJSNotImplemented: a compression for which no codec is registered',
    reason: reason.ValidationError,
    retryable: false,
  },
  unencodable: {
    condition: 'the body is not a Buffer, or a TypeError while the message is encoded',
    reason: reason.SerializationError,
    retryable: false,
  },
  invalidMessage: {
    condition: 'a header that is not a string or holds half a surrogate pair, a destination that is no topic name',
    reason: reason.ValidationError,
    retryable: false,
  },
  unknown: {
    condition: '-1 UNKNOWN_SERVER_ERROR, and every code that is not in this table',
    reason: reason.Unknown,
    retryable: true,
  },
} as const satisfies Record<string, ClassifiedCondition>;

export type ConditionId = keyof typeof classification;
