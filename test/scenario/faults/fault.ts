import type { FaultScene } from './fault-scene.js';
import type { Random } from './random.js';

/** A fault that has struck. */
export interface Struck {
  /** Whom or what, for the log. */
  readonly on: string;
  /** Takes it back; what it has done to others stays done. */
  undo(): Promise<void>;
}

/** One kind of trouble. */
export interface Fault {
  readonly name: string;
  /** How often it is drawn, beside the others. */
  readonly weight: number;
  /** Takes so long to do that short runs leave it out. */
  readonly slow?: true;
  /** How long it lasts, in milliseconds, both ends included. */
  readonly lasts: readonly [least: number, most: number];
  /**
   * Whether it may leave an outcome unknown or a lease to run out, so that a message which is under way meanwhile may be sent
   * again, or be charged a try that nobody saw.
   */
  readonly repeats: boolean;
  strike(scene: FaultScene, random: Random): Promise<Struck>;
}
