import type { WireRequest } from './kafka-broker.js';

/** The header of the one record that stands for a batch which cannot be decoded; its value is the batch as it came. */
export const undecodableHeader = 'whizbang-undecodable';

const fetchVersion = 11;

/**
 * One batch that kafkajs cannot decode (a compression without codec, damaged bytes) makes it refuse all partitions of the
 * answer, again and again. Here such a batch is replaced by one record that holds its bytes, so that the rest is received
 * and what is in the batch ends up where everything unreadable does.
 */
export function withUndecodableBatches(wire: WireRequest): WireRequest {
  const { request, response } = wire;
  if (request.apiName !== 'Fetch' || request.apiVersion !== fetchVersion) return wire;
  const decode = async (payload: Buffer): Promise<unknown> => {
    try {
      return await response.decode(payload);
    } catch {
      return response.decode(await replaceUndecodable(payload, (part) => response.decode(part)));
    }
  };
  return { ...wire, response: { ...response, decode } };
}

type Decode = (payload: Buffer) => Promise<unknown>;

/** Walks a Fetch answer (version 11), which is lists of topics, partitions and batches with their lengths in front. */
async function replaceUndecodable(payload: Buffer, decode: Decode): Promise<Buffer> {
  const parts: Buffer[] = [];
  let at = 0;
  let copied = 0;
  const count = (): number => payload.readInt32BE((at += 4) - 4);
  at += 10;
  for (let topics = count(); topics > 0; topics -= 1) {
    at += 2 + payload.readInt16BE(at);
    for (let partitions = count(); partitions > 0; partitions -= 1) {
      at += 30;
      const aborted = Math.max(0, count());
      at += 16 * aborted + 4;
      parts.push(payload.subarray(copied, at));
      const size = Math.max(0, count());
      const batches: Buffer[] = [];
      for (const batch of splitBatches(payload.subarray(at, at + size))) batches.push(await readable(batch, decode));
      at += size;
      copied = at;
      const records = Buffer.concat(batches);
      parts.push(int32(records.length), records);
    }
  }
  parts.push(payload.subarray(copied));
  return Buffer.concat(parts);
}

function splitBatches(records: Buffer): Buffer[] {
  const batches: Buffer[] = [];
  for (let at = 0; at + 12 <= records.length;) {
    const end = at + 12 + records.readInt32BE(at + 8);
    // The broker cuts the last one off where the answer is full.
    if (end <= at + 12 || end > records.length) break;
    batches.push(records.subarray(at, end));
    at = end;
  }
  return batches;
}

async function readable(batch: Buffer, decode: Decode): Promise<Buffer> {
  try {
    await decode(answerWith(batch));
    return batch;
  } catch (error) {
    return standIn(batch, error instanceof Error ? error.message : String(error));
  }
}

/** A Fetch answer that holds nothing but this batch. */
function answerWith(batch: Buffer): Buffer {
  const one = int32(1);
  return Buffer.concat([
    Buffer.alloc(10),
    one,
    Buffer.alloc(2),
    one,
    Buffer.alloc(30),
    int32(0),
    Buffer.alloc(4),
    int32(batch.length),
    batch,
  ]);
}

/** An uncompressed batch at the same place, with one record at the last offset of the original. */
function standIn(batch: Buffer, reason: string): Buffer {
  const lastOffsetDelta = batch.length >= 27 ? batch.readInt32BE(23) : 0;
  const [name, text] = [Buffer.from(undecodableHeader), Buffer.from(reason)];
  const body = Buffer.concat([
    Buffer.of(0),
    varint(0),
    varint(lastOffsetDelta),
    varint(-1),
    varint(batch.length),
    batch,
    varint(1),
    varint(name.length),
    name,
    varint(text.length),
    text,
  ]);
  const record = Buffer.concat([varint(body.length), body]);
  const header = Buffer.alloc(61);
  batch.copy(header, 0, 0, Math.min(61, batch.length));
  header.writeInt32BE(61 - 12 + record.length, 8);
  header.writeInt8(2, 16);
  // No compression, no transaction, no control record. The checksum is not looked at.
  header.writeInt16BE(0, 21);
  header.writeInt32BE(lastOffsetDelta, 23);
  header.writeBigInt64BE(-1n, 43);
  header.writeInt32BE(1, 57);
  return Buffer.concat([header, record]);
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

/** Zigzag, seven bits at a time. */
function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = ((value << 1) ^ (value >> 31)) >>> 0;
  for (; rest > 127; rest >>>= 7) bytes.push((rest & 127) | 128);
  return Buffer.from([...bytes, rest]);
}
