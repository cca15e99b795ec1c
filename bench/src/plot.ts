/** A bar for each row; several where a row has several values. */
export interface Chart {
  readonly title: string;
  readonly unit: string;
  /** What each of a row's values is; one value needs none. */
  readonly series?: readonly string[];
  readonly bars: readonly Bar[];
}

export interface Bar {
  readonly label: string;
  readonly values: readonly number[];
  /** Lowest and highest of the runs, of the first value. */
  readonly spread?: readonly [low: number, high: number];
  /** Drawn in the colour that stands out. */
  readonly ours?: boolean;
}

const width = 860;
const left = 320;
const right = 90;
const top = 56;
const thickness = 18;
const gap = 10;
const colours = { ours: ['#1f6feb', '#79b0ff', '#b6d4ff'], others: ['#8b949e', '#b1b8c0', '#d4d9de'] };

/** A horizontal bar chart as SVG, with whiskers from the lowest run to the highest. */
export function drawChart({ title, unit, series = [], bars }: Chart): string {
  const perBar = Math.max(1, ...bars.map(({ values }) => values.length));
  const rowHeight = perBar * thickness + gap;
  const height = top + bars.length * rowHeight + 24;
  const most = Math.max(1e-9, ...bars.flatMap(({ values, spread }) => [...values, ...(spread ?? [])]));
  const x = (value: number): number => left + (Math.max(0, value) / most) * (width - left - right);
  const parts = bars.flatMap((bar, index) => drawBar(bar, top + index * rowHeight, x));
  const legend = series.map((name, index) => {
    const at = left + index * 170;
    return `<rect x="${at}" y="32" width="12" height="12" fill="${colours.ours[index] ?? '#000'}"/><text x="${at + 17}" y="42">${escape(name)}</text>`;
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="13" fill="#24292f">`,
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    `<text x="16" y="22" font-size="15" font-weight="600">${escape(`${title} (${unit})`)}</text>`,
    ...legend,
    ...parts,
    '</svg>\n',
  ].join('\n');
}

function drawBar({ label, values, spread, ours = false }: Bar, y: number, x: (value: number) => number): string[] {
  const middle = y + (values.length * thickness) / 2 + 4;
  const palette = ours ? colours.ours : colours.others;
  const parts = [
    `<text x="${left - 8}" y="${middle}" text-anchor="end"${ours ? ' font-weight="600"' : ''}>${escape(label)}</text>`,
  ];
  for (const [index, value] of values.entries()) {
    const barY = y + index * thickness;
    const end = x(value);
    const after = index === 0 && spread !== undefined ? Math.max(end, x(spread[1])) : end;
    parts.push(
      `<rect x="${left}" y="${barY + 1}" width="${(end - left).toFixed(1)}" height="${thickness - 3}" fill="${palette[index] ?? '#888'}"/>`,
      `<text x="${(after + 6).toFixed(1)}" y="${barY + 14}">${escape(readable(value))}</text>`,
    );
  }
  if (spread !== undefined) {
    const [low, high] = [x(spread[0]).toFixed(1), x(spread[1]).toFixed(1)];
    parts.push(
      `<path d="M${low} ${y + 9}H${high}M${low} ${y + 5}v8M${high} ${y + 5}v8" stroke="#24292f" fill="none"/>`,
    );
  }
  return parts;
}

function readable(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString('en-US') : String(Number(value.toPrecision(3)));
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
