/** The places of a run's work that hold what looks like a key. Nothing here repeats the key. */
import Type, { type Static } from 'typebox'
import { FOUND_KEY_FILE_CHARS_MAX, FOUND_KEYS_MAX, NAME_CHARS_MAX } from './limits.ts'
import { boundedList, record, text } from './schema-helpers.ts'

export const FoundKey = record('FoundKey', {
  kind: text(NAME_CHARS_MAX, 'What it looks like, such as "a GitHub token".'),
  file: text(
    FOUND_KEY_FILE_CHARS_MAX,
    'The path of the file, or what else holds it, such as the text of a commit.',
  ),
  line: Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })),
})
export type FoundKey = Static<typeof FoundKey>

/** The first of the places. */
export const FoundKeys = boundedList(FoundKey, FOUND_KEYS_MAX)
