/** How large a bench is; WHIZBANG_BENCH_* make it smaller for a look whether it works. */
export function sizeOf(name: 'MESSAGES' | 'SECONDS' | 'ROWS', standard: number): number {
  return Number(process.env[`WHIZBANG_BENCH_${name}`] ?? standard);
}

/** Runs of each contender. */
export function repeatsOf(standard = 5): number {
  return Number(process.env['WHIZBANG_BENCH_REPEATS'] ?? standard);
}
