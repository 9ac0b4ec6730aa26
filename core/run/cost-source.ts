/**
 * Says where the figures of a cost entry come from: from the vendor, from a price table, or from the scripted agent.
 *
 * The models of the scripted agent have names of their own, so its figures are recognized in streams and transcripts.
 */
import type { CostEntry, CostSource } from '../../protocol/cost.ts'

export const SCRIPTED_MODEL = 'scripted-1'
export const SMALL_SCRIPTED_MODEL = 'scripted-1-mini'
const EXAMPLE_MODELS: readonly (string | undefined)[] = [SCRIPTED_MODEL, SMALL_SCRIPTED_MODEL]

export function withSource(entry: CostEntry): CostEntry {
  return { ...entry, source: sourceOf(entry) }
}

/** Returns the source that all parts of a sum have; undefined when their sources differ or are unknown. */
export function sharedSource(parts: readonly CostEntry[]): CostSource | undefined {
  const [first] = parts
  return parts.every(({ source }) => source === first?.source) ? first?.source : undefined
}

function sourceOf({ model, breakdown, estimated }: CostEntry): CostSource {
  const models = breakdown?.map((row) => row.model) ?? [model]
  if (models.every((name) => EXAMPLE_MODELS.includes(name))) return 'example'
  return estimated ? 'estimated' : 'reported'
}
