/** The groups that a row of `costs` may stand for. */
export const COST_GROUPS = ['day', 'repo', 'model', 'agent'] as const
export type CostGroup = (typeof COST_GROUPS)[number]
