/**
 * `withOwnPrices` puts the prices of the configuration in front of the listed ones.
 *
 * A rate that is not given is the highest that vendors ask for it: input read from a cache costs as much as new input, and
 * a cache entry a quarter more, or twice as much when it lives long.
 */
import type { JobModelPrice } from '../../protocol/agents/model-use.ts'
import { bareName, type ModelPrice, type PriceTable } from './price.ts'

const WRITE_FACTOR = 1.25
const LONG_WRITE_FACTOR = 2

export function withOwnPrices(table: PriceTable, own: readonly JobModelPrice[] = []): PriceTable {
  const models = own.map((price) => [bareName(price.model), toModelPrice(price)] as const)
  return models.length === 0
    ? table
    : { ...table, models: { ...table.models, ...Object.fromEntries(models) } }
}

function toModelPrice({ input, output, cacheRead = input, cacheWrite }: JobModelPrice): ModelPrice {
  const source = 'own'
  if (cacheWrite !== undefined) return { input, output, cacheRead, cacheWrite, source }
  return {
    input,
    output,
    cacheRead,
    cacheWrite: WRITE_FACTOR * input,
    cacheWriteHour: LONG_WRITE_FACTOR * input,
    source,
  }
}
