const RealDate = Date;

/** Moves the wall clock of this process, as far as JavaScript can see it; what measures durations goes on as before. */
export function moveClock(hours: number): void {
  const now = (): number => RealDate.now() + hours * 3_600_000;
  globalThis.Date = new Proxy(RealDate, {
    construct: (target, parameters: unknown[], newTarget) =>
      Reflect.construct(target, parameters.length === 0 ? [now()] : parameters, newTarget) as Date,
    get: (target, name, receiver): unknown => (name === 'now' ? now : Reflect.get(target, name, receiver)),
  });
}
