/** KEDA's trigger on the host's demand route. */
import { type Deployment, WORKER } from './deployment.ts'
import type { YamlMap } from './yaml.ts'

/**
 * @param field of the answer of the demand route
 * @param name for a formula; absent where the trigger stands alone
 */
export function demandTrigger(
  { hostUrl }: Deployment,
  field: 'wanted' | 'activeRuns',
  target: number,
  name?: string,
): YamlMap {
  return {
    type: 'metrics-api',
    ...(name === undefined ? {} : { name }),
    metadata: {
      url: demandUrl(hostUrl),
      format: 'json',
      valueLocation: field,
      targetValue: String(target),
      authMode: 'bearer',
    },
    authenticationRef: { name: WORKER },
  }
}

/** The workers' address may name the scheme or the path of their socket. */
function demandUrl(hostUrl: string): string {
  const { protocol, host, pathname } = new URL(hostUrl)
  const scheme = protocol === 'wss:' || protocol === 'https:' ? 'https' : 'http'
  const path = pathname.replace(/\/+$/, '').replace(/\/ws\/worker$/, '')
  return `${scheme}://${host}${path}/api/worker/demand`
}
