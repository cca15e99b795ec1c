/** A ratio of the table of goals, and what came of it. */
export interface Goal {
  readonly goal: string;
  readonly needed: string;
  readonly measured: number;
  readonly reached: boolean;
}

export function atLeast(goal: string, measured: number, needed: number): Goal {
  return { goal, needed: `≥ ${needed}`, measured, reached: measured >= needed };
}

export function atMost(goal: string, measured: number, needed: number): Goal {
  return { goal, needed: `≤ ${needed}`, measured, reached: measured <= needed };
}

export function exactly(goal: string, measured: number, needed: number): Goal {
  return { goal, needed: `${needed}`, measured, reached: measured === needed };
}
