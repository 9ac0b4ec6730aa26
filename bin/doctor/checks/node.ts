/** Tells which Node runs this program, whether it still receives fixes, and what serves the host's ports with it. */
import { describeListener } from '../../../transport/choose-listener.ts'
import { type Check, fail, ok, warn } from '../finding.ts'

/** Node's published end-of-life dates, by major version. */
const END_OF_FIXES: Readonly<Record<string, string>> = {
  20: '2026-04-30',
  22: '2027-04-30',
  24: '2028-04-30',
}

export const nodeCheck: Check = {
  id: 'node',
  places: ['host', 'worker'],
  async judge({ place, nodeVersion, listener, now }) {
    const choice = place === 'host' ? listener() : undefined
    const altered = choice?.alteredFile
    if (altered !== undefined)
      return [fail(`${altered} is not the released binary of the listener`, 'reinstall switchyard')]
    const serves = choice === undefined ? '' : `, listener ${describeListener(choice)}`
    const ended = END_OF_FIXES[nodeVersion.split('.')[0] ?? '']
    if (ended !== undefined && now() > Date.parse(ended))
      return [
        warn(
          `node ${nodeVersion} has had no fixes since ${ended}${serves}`,
          'install Node 24: https://nodejs.org/en/download',
        ),
      ]
    return [ok(`node ${nodeVersion}${serves}`)]
  },
}
