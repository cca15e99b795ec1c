/**
 * The highest offset that was handed over on each partition of each service, as far as this transport has seen. Kafka does
 * not tell whether a record was handed to anybody before.
 */
export class HandedOver {
  readonly #highest = new Map<string, bigint>();

  has(service: string, topic: string, partition: number, offset: bigint): boolean {
    return offset <= (this.#highest.get(`${service}|${topic}|${partition}`) ?? -1n);
  }

  add(service: string, topic: string, partition: number, offset: bigint): void {
    const key = `${service}|${topic}|${partition}`;
    if (offset > (this.#highest.get(key) ?? -1n)) this.#highest.set(key, offset);
  }
}
