/**
 * LeaseArtifacts writes the artifacts that one lease reports, within the budget of its run.
 *
 * An artifact arrives in parts. After a refusal its remaining parts are counted and not written, and one sentence
 * names the artifact, its bytes and the reason. LeaseArtifacts leaves the order of frames to FrameReceiver, which
 * repeats a part whose write failed and stores the unfinished artifact with the watermark.
 */
import {
  type ArrivingArtifact,
  addPart,
  describeRefused,
  isContinued,
} from '../../core/run/arriving-artifact.ts'
import { artifactBudget } from '../../core/run/log-budget.ts'
import { stripInvisible } from '../../core/safe-text.ts'
import type { WorkerFrameOf } from '../../protocol/frames.ts'
import type { HostContext } from '../host-context.ts'

export class LeaseArtifacts {
  readonly #context: HostContext
  readonly #runId: string
  #arriving: ArrivingArtifact | undefined

  constructor(context: HostContext, runId: string, arriving: ArrivingArtifact | undefined) {
    this.#context = context
    this.#runId = runId
    this.#arriving = arriving
  }

  /** The artifact whose last part has not arrived. */
  get arriving(): ArrivingArtifact | undefined {
    return this.#arriving
  }

  /** Writes a part. Returns sentences for the run's log about artifacts that are not kept. */
  async write(frame: WorkerFrameOf<'run-artifact'>): Promise<readonly string[]> {
    const bytes = Buffer.from(frame.data, 'base64')
    const isRefused = isContinued(this.#arriving, frame) && this.#arriving?.refused !== undefined
    const result = isRefused ? 'repeat' : await this.#writePart(frame, bytes)
    const refused = typeof result === 'object' ? result.refused : undefined
    const { name, part, final } = frame
    const { arriving, problems } = addPart(
      this.#arriving,
      { name, part, final, bytes: bytes.length },
      refused,
    )
    this.#arriving = arriving
    return problems
  }

  /** Returns the sentence about an artifact that was refused and whose last part has not arrived. */
  end(): readonly string[] {
    const arriving = this.#arriving
    this.#arriving = undefined
    return describeRefused(arriving)
  }

  async #writePart({ name, part, final }: WorkerFrameOf<'run-artifact'>, bytes: Uint8Array) {
    if (stripInvisible(name) !== name) return { refused: 'its name holds characters that nobody sees' }
    const { store, config } = this.#context
    return store.artifacts.write(this.#runId, name, part, bytes, final, artifactBudget(config()))
  }
}
