import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

export interface SqlBlock {
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

/**
 * The SQL of the plain-text seeds: from a line that begins a statement, outside a drawing, to the semicolon that ends it;
 * and the one that stands inside a line, after `sql{ … }`.
 */
export function blocksOfSeeds(folder: string): SqlBlock[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.txt'))
    .toSorted()
    .flatMap((file) => {
      const blocks: SqlBlock[] = [];
      let open: { line: number; lines: string[] } | undefined;
      for (const [index, line] of readFileSync(join(folder, file), 'utf8').split('\n').entries()) {
        const inline = /sql\{[^}]*\}\s*(SELECT .*;)/.exec(line)?.[1];
        if (inline !== undefined) blocks.push({ file, line: index + 1, text: inline });
        if (open === undefined && /^\s*(SELECT|UPDATE|INSERT|DELETE|CREATE)\b/.test(line)) {
          open = { line: index + 1, lines: [] };
        }
        open?.lines.push(line);
        if (open !== undefined && /;\s*(--.*)?$/.test(line)) {
          blocks.push({ file, line: open.line, text: open.lines.join('\n').trim() });
          open = undefined;
        }
      }
      if (open !== undefined) throw new Error(`${file}: the SQL that begins in line ${open.line} does not end`);
      return blocks;
    });
}

/** The code blocks of a Markdown file in one language. */
export function blocksOfMarkdown(path: string, language: string): SqlBlock[] {
  const text = readFileSync(path, 'utf8');
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map((match) => ({
    file: path,
    line: text.slice(0, match.index).split('\n').length,
    text: match[1] ?? '',
  }));
}

/** Puts values for placeholders; `'<name>'` and `<name>` alike. Throws when one is unknown. */
export function fill(text: string, values: Readonly<Record<string, string>>): string {
  return text.replaceAll(/<([a-z_ ]+)>/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined) throw new Error(`There is no value for <${name}>`);
    return value;
  });
}
