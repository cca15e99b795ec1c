import { v7 } from 'uuid';

/**
 * The id under which this process holds leases.
 *
 * It is renewed when the answer to a claim was lost: rows may then be leased under the old id that nobody has in hand, and
 * the prefix rule lets an instance pass rows that it holds itself. Under a new id they are another holder's, and their
 * streams wait until the lost lease runs out.
 */
export class InstanceIdentity {
  #current = v7();

  get current(): string {
    return this.#current;
  }

  renew(): string {
    this.#current = v7();
    return this.#current;
  }
}
