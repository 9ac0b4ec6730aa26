/** Tells whether the host of this data directory runs and answers. */
import { type Check, fail, ok, warn } from '../finding.ts'

export const hostCheck: Check = {
  id: 'host',
  places: ['host', 'elsewhere'],
  async judge({ host, dataDir }) {
    const found = await host()
    switch (found.is) {
      case 'running':
        return [ok(`switchyard ${found.health.version} serves ${found.url}`)]
      case 'none':
        return [ok('no host is running here, so its files were checked')]
      case 'refusing':
        return [fail(found.reason, found.cure)]
      case 'silent':
        return found.pid === undefined
          ? [fail(found.reason, 'check SWITCHYARD_URL, or unset it')]
          : [
              warn(
                `process ${found.pid} uses ${dataDir} and does not answer: ${found.reason}`,
                `wait while it starts; else kill ${found.pid}, then switchyard serve`,
              ),
            ]
    }
  },
}
