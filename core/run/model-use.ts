/** `modelUseOf` selects the settings of the model for a job: none where they are the usual ones. */
import type { ServiceConfig } from '../../protocol/config.ts'
import type { RunCredentials } from '../../protocol/frames.ts'

export function modelUseOf({
  serverTools,
  models,
  prices,
}: Pick<ServiceConfig['agent'], 'serverTools' | 'models' | 'prices'>): Pick<RunCredentials, 'modelUse'> {
  if (serverTools.length === 0 && models === undefined && prices === undefined) return {}
  return {
    modelUse: {
      ...(serverTools.length === 0 ? {} : { serverTools }),
      ...(models === undefined ? {} : { models }),
      ...(prices === undefined
        ? {}
        : { prices: Object.entries(prices).map(([model, price]) => ({ model, ...price })) }),
    },
  }
}
