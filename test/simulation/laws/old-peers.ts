/** The law of workers of the first released version, judged by the schemas that were recorded of it. */
import { createChecker } from '../../../protocol/parse.ts'
import recorded from '../../peers/c2680b1/schemas.jsonl'
import type { RecordedFrame } from '../../peers/peer-schemas.ts'
import { FOREIGN_INSTALLATION } from '../foreign-host.ts'
import type { Law } from './law.ts'

const schemas = recorded
  .trimEnd()
  .split('\n')
  // Only recordings have this name.
  .map((line) => JSON.parse(line) as RecordedFrame)
const checkers = new Map(schemas.map(({ from, type, schema }) => [`${from} ${type}`, createChecker(schema)]))

function problemOf(from: 'host' | 'worker', frame: { readonly type: string }): string | undefined {
  const check = checkers.get(`${from} ${frame.type}`)
  if (check === undefined) return `/type: ${frame.type} is unknown`
  const checked = check(frame)
  return checked.ok ? undefined : checked.error
}

const readsEverything: Law = {
  number: 'W4',
  sentence: 'a worker of the first version reads every frame that the host sends to it',
  observe: (view, fail) => ({
    onHostSends: (wire, frame) => {
      const register = view.registerFrameOf(wire)
      if (register === undefined || problemOf('worker', register) !== undefined) return
      // A foreign host of the simulation writes its answer by itself.
      if (frame.type === 'rejected' && frame.installation === FOREIGN_INSTALLATION) return
      const problem = problemOf('host', frame)
      if (problem !== undefined) fail(`${wire.worker} cannot read ${frame.type}: ${problem}`, { frame })
    },
    onHostReceives: (wire, frame) => {
      const register = view.registerFrameOf(wire)
      if (frame === undefined || register === undefined || problemOf('worker', register) !== undefined) return
      const problem = problemOf('worker', frame)
      if (problem !== undefined)
        fail(`${wire.worker} is of the first version and sends: ${problem}`, { frame })
    },
  }),
}

export const oldPeerLaws: readonly Law[] = [readsEverything]
