/**
 * The cost of an agent execution: tokens always, dollars when known.
 *
 * `estimated` tells whether an amount was computed rather than billed. `core/run/cost` adds costs up.
 */
import Type, { type Static } from 'typebox'
import { COST_MODELS_MAX } from './limits.ts'
import { addedKey, boundedList, Count, Name, record, stringEnum, Usd } from './schema-helpers.ts'

const tokens = {
  inputTokens: Count,
  outputTokens: Count,
  cacheReadTokens: Count,
  cacheWriteTokens: Count,
}

export const CostModelUsage = record('CostModelUsage', {
  model: Name,
  ...tokens,
  costUsd: Type.Optional(Usd),
})
export type CostModelUsage = Static<typeof CostModelUsage>

/** `reported`: by the vendor. `estimated`: from a price table. `example`: made up by the scripted agent. */
export const CostSource = stringEnum(['reported', 'estimated', 'example'], 'Where the figures come from.')
export type CostSource = Static<typeof CostSource>

export const CostEntry = record('CostEntry', {
  label: Name,
  provider: Name,
  model: Type.Optional(Name),
  ...tokens,
  costUsd: Type.Optional(Usd),
  estimated: Type.Boolean(),
  source: addedKey(CostSource),
  breakdown: Type.Optional(boundedList(CostModelUsage, COST_MODELS_MAX)),
})
export type CostEntry = Static<typeof CostEntry>

export const CostModelTotal = record('CostModelTotal', {
  model: Name,
  ...tokens,
  costUsd: Type.Optional(Usd),
  estimated: Type.Boolean(),
})
export type CostModelTotal = Static<typeof CostModelTotal>

export const CostTotals = record('CostTotals', {
  ...tokens,
  costUsd: Type.Optional(Usd),
  estimated: Type.Boolean(),
  byModel: Type.Array(CostModelTotal),
})
export type CostTotals = Static<typeof CostTotals>
