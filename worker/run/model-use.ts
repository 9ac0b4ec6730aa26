/** Reads from a run's credentials what its agent may ask its model for, and at which prices. */
import { withOwnPrices } from '../../core/run/own-prices.ts'
import type { PriceTable } from '../../core/run/price.ts'
import { PRICES } from '../../core/run/price-table.ts'
import type { JobSandbox, RunCredentials } from '../../protocol/frames.ts'
import type { ModelRules } from '../model-api/model-gate.ts'

export const pricesOf = ({ modelUse }: RunCredentials): PriceTable => withOwnPrices(PRICES, modelUse?.prices)

/** A sandbox without a network has none through its vendor either. */
export function vendorRules(
  { modelUse: { serverTools = [], models = [] } = {} }: RunCredentials,
  network: JobSandbox['network'] | undefined,
): Pick<ModelRules, 'serverTools' | 'patterns'> {
  return {
    serverTools: network === 'none' ? [] : serverTools,
    ...(models.length === 0 ? {} : { patterns: models }),
  }
}
