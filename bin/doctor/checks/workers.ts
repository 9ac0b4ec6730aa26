/** Tells whether the running host has workers, and which of them are away. */
import { quoteWord } from '../../../protocol/quote-word.ts'
import type { WorkerView } from '../../../protocol/worker.ts'
import { formatAgeOf } from '../../output/times.ts'
import { type Check, fail, ok, warn } from '../finding.ts'

export const workersCheck: Check = {
  id: 'workers',
  places: ['host', 'elsewhere'],
  async judge({ host, now }) {
    const found = await host()
    if (found.is !== 'running') return []
    const { workers } = found
    const online = workers.filter(({ connection }) => connection === 'online')
    const away = workers.filter(({ connection }) => connection !== 'online')
    if (online.length === 0)
      return [fail(`none of ${workers.length} workers is online`, 'switchyard workers pair')]
    if (away.length === 0) return [ok(`${online.length} online`)]
    return away.map((worker) =>
      warn(
        `${worker.name} is offline${describeSeen(worker, now())}`,
        `start its worker, or: switchyard workers revoke ${quoteWord(worker.name)}`,
      ),
    )
  },
}

const describeSeen = ({ lastSeenAt }: WorkerView, now: number): string =>
  lastSeenAt === undefined ? '' : `, seen ${formatAgeOf(lastSeenAt, now)} ago`
