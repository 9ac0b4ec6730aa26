/** Reports changes that were held back: in the run's log, and as an artifact. */
import type { HeldBackChanges } from '../git/git-ports.ts'
import { describeHeldBack, HELD_BACK_ARTIFACT } from '../git/pull-request-text.ts'
import type { PublishRequest } from './work-plan.ts'

export function reportHeldBack(
  heldBack: HeldBackChanges,
  { session, addArtifact }: Pick<PublishRequest, 'session' | 'addArtifact'>,
): void {
  session.log(describeHeldBack(heldBack))
  addArtifact(HELD_BACK_ARTIFACT, heldBack.patch)
}
