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

/** Registrations are judged once: all that follows on a connection asks for its own. */
const oldRegistrations = new WeakMap<object, boolean>()

function isOld(register: { readonly type: string } | undefined): boolean {
  if (register === undefined) return false
  const known = oldRegistrations.get(register)
  if (known !== undefined) return known
  const judged = problemOf('worker', register) === undefined
  oldRegistrations.set(register, judged)
  return judged
}

const readsEverything: Law = {
  number: 'W4',
  sentence: 'a worker of the first version reads every frame that the host sends to it',
  observe: (view, fail) => ({
    onHostSends: (connection, frame) => {
      if (!isOld(view.registerFrameOf(connection))) return
      // A foreign host of the simulation writes its answer by itself.
      if (frame.type === 'rejected' && frame.installation === FOREIGN_INSTALLATION) return
      const problem = problemOf('host', frame)
      if (problem !== undefined) fail(`${connection.worker} cannot read ${frame.type}: ${problem}`, { frame })
    },
    onHostReceives: (connection, frame) => {
      if (frame === undefined || !isOld(view.registerFrameOf(connection))) return
      const problem = problemOf('worker', frame)
      if (problem !== undefined)
        fail(`${connection.worker} is of the first version and sends: ${problem}`, { frame })
    },
  }),
}

export const oldPeerLaws: readonly Law[] = [readsEverything]
