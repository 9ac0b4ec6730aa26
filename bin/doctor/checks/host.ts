/** Tells whether the host of this data directory runs and answers. */

import type { AttentionKind } from '../../../protocol/attention.ts'
import type { FoundOwner } from '../../../store/lock.ts'
import { TAKE_OVER_HOST } from '../../store-exit-code.ts'
import { type Check, fail, type Judgement, ok, splitCure, warn } from '../finding.ts'
import { judgeUnknownOwner } from './data.ts'

/** Kinds of attention that concern the service as a whole. The tracker has a check of its own. */
const TROUBLES: ReadonlySet<AttentionKind> = new Set(['disk', 'damage', 'codehost'])

export const hostCheck: Check = {
  id: 'host',
  places: ['host', 'elsewhere'],
  async judge({ host, dataDir }) {
    const found = await host()
    switch (found.is) {
      case 'running':
        return [
          ok(`switchyard ${found.health.version} serves ${found.url}`),
          ...found.attention.flatMap(({ kind, message, cure }) =>
            TROUBLES.has(kind) ? [judgeTrouble(kind, message, cure)] : [],
          ),
        ]
      case 'none':
        return [
          ok('no host is running here, so its files were checked'),
          ...(found.foreign === undefined ? [] : [fail(found.foreign.message, found.foreign.cure)]),
        ]
      case 'refusing':
        return [fail(found.reason, found.cure)]
      case 'silent':
        return [
          found.owner === undefined
            ? fail(found.reason, 'check SWITCHYARD_URL, or unset it')
            : judgeOwner(dataDir, found.owner, found.reason),
        ]
    }
  },
}

/** Damage does not mend itself, so it is judged as where no host runs. */
function judgeTrouble(kind: AttentionKind, text: string, command: string | undefined): Judgement {
  const [message, cure] = command === undefined ? splitCure(text) : [text, command]
  return kind === 'damage' ? fail(message, cure) : warn(message, cure)
}

function judgeOwner(dataDir: string, { isAlive, pid, description }: FoundOwner, reason: string): Judgement {
  if (!isAlive) return judgeUnknownOwner(dataDir, description, TAKE_OVER_HOST)
  return warn(
    `${description} uses ${dataDir} and does not answer: ${reason}`,
    `wait while it starts; else ${pid === undefined ? 'stop it' : `kill ${pid}`} where it runs, then switchyard serve`,
  )
}
