/** Words for a place that holds what looks like a key, without the schema, which pages and commands do not load. */
import type { FoundKey } from './found-key.ts'

/** "src/a.ts line 3 holds what looks like a GitHub token". */
export const foundKeyText = ({ kind, file, line }: FoundKey): string =>
  `${line === undefined ? file : `${file} line ${line}`} holds what looks like ${kind}`
