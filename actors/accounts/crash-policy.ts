/** What becomes of a flow that throws: it is over at once, and the room tells those who wait for it. */
import { closeOnCrash, type Supervision } from '../runtime/actor-kind.ts'

export interface FlowCrashed {
  readonly type: 'connect.crashed'
  readonly flow: string
}

export const reportCrash: Supervision = {
  ...closeOnCrash,
  finalOutputs: (flow) => {
    const effect: FlowCrashed = { type: 'connect.crashed', flow }
    return [{ is: 'effect', effect }]
  },
}
