/** The front desk's part about a person who steps in: terminals, and having a pull request followed up. */
import { no } from '../../core/refusal.ts'
import type { FrontDesk } from './front-desk.ts'

type AttachPart = Pick<FrontDesk, 'followUpRun' | 'resumeRun' | 'releaseRun' | 'attachView'>

export function attachDesk(): AttachPart {
  const unbuilt = no('unbuilt', 'this is not built yet in this version')
  return {
    followUpRun: async () => unbuilt,
    resumeRun: async () => unbuilt,
    releaseRun: async () => unbuilt,
    attachView(_, view) {
      view.close(1011, unbuilt.refusal.message)
      return { input: () => {}, resize: () => {}, closed: () => {} }
    },
  }
}
