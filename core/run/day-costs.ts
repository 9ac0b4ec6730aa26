/**
 * Adds up what runs cost on each local day of the host, by repository.
 *
 * Estimated costs are kept apart from billed ones. A corrected report may lower a day's costs, but not below zero: the
 * costs that it corrects may be those of an earlier day.
 */
export interface RepoCost {
  /** The key of the repository, as metrics name it. */
  readonly repo: string
  readonly estimated: boolean
  readonly usd: number
}

/** The costs of one day. */
export interface DayCosts {
  readonly costs: readonly RepoCost[]
}

/** Returns a local calendar day, such as `2026-01-31`. `daysAgo` counts back from the day of `now`. */
export function localDay(now: number, daysAgo = 0): string {
  const date = new Date(now)
  // Noon exists on every day of every time zone, whatever its daylight saving.
  const noon = new Date(date.getFullYear(), date.getMonth(), date.getDate() - daysAgo, 12)
  const parts = [noon.getFullYear(), noon.getMonth() + 1, noon.getDate()]
  return parts.map((part) => String(part).padStart(2, '0')).join('-')
}

export function addRepoCost({ costs }: DayCosts, added: RepoCost): DayCosts {
  const at = costs.findIndex(({ repo, estimated }) => repo === added.repo && estimated === added.estimated)
  const usd = Math.max(0, (costs[at]?.usd ?? 0) + added.usd)
  return { costs: at < 0 ? [...costs, { ...added, usd }] : costs.with(at, { ...added, usd }) }
}
