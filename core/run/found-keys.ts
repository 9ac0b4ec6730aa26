/** Words about work that is not published because it holds what looks like keys. */
import type { FoundKey } from '../../protocol/found-key.ts'
import { foundKeyText } from '../../protocol/found-key-text.ts'
import { TEXT_CHARS_MAX } from '../../protocol/limits.ts'
import type { Run } from '../../protocol/run.ts'
import { toSentence } from '../printable-output.ts'
import { truncate } from '../safe-text.ts'
import { runInCommand } from './name-in-commands.ts'

const PLACES_SHOWN = 3

export function foundKeysText(keys: readonly FoundKey[]): string {
  const places = keys.slice(0, PLACES_SHOWN).map(foundKeyText)
  const others = keys.length - places.length
  if (others > 0) places.push(others === 1 ? 'another place holds one' : `${others} more places hold some`)
  return toSentence(places.join(', '), TEXT_CHARS_MAX)
}

/** Why the run waits. */
export const heldReason = (keys: readonly FoundKey[]): string =>
  truncate(`not published until a person decides: ${foundKeysText(keys)}`, TEXT_CHARS_MAX)

export const publishAnywayCommand = (run: Run): string =>
  `switchyard runs publish ${runInCommand(run)} --anyway`

export function withoutFoundKeys(run: Run): Run {
  if (run.foundKeys === undefined) return run
  const { foundKeys: _, foundKeysDigest: __, ...rest } = run
  return rest
}
