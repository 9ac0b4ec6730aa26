/** The supervision of account flows: a flow that throws ends at once, and its pending requests receive a refusal. */
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
