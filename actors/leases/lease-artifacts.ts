/**
 * LeaseArtifacts writes the artifacts that one lease reports, within the budget of its run.
 *
 * An artifact arrives in parts. After a refusal its remaining parts are counted and not written, and one sentence
 * names the artifact, its bytes and the reason. LeaseArtifacts leaves the order of frames to FrameReceiver, which
 * repeats a part whose write failed.
 */
import type { Artifacts } from '../../core/ports.ts'
import type { WorkerFrameOf } from '../../protocol/frames.ts'

export interface LeaseArtifactsPorts {
  readonly artifacts: Pick<Artifacts, 'write'>
  /** The bytes of artifacts that a run may store. */
  readonly artifactBudget: () => number
}

interface ArrivingArtifact {
  readonly name: string
  bytes: number
  /** Why the artifact is not kept. */
  refused: string | undefined
}

export class LeaseArtifacts {
  readonly #ports: LeaseArtifactsPorts
  readonly #runId: string
  #current: ArrivingArtifact | undefined

  constructor(ports: LeaseArtifactsPorts, runId: string) {
    this.#ports = ports
    this.#runId = runId
  }

  /** Writes a part. Returns a sentence for the run's log when an artifact is not kept. */
  async write({ name, part, final, data }: WorkerFrameOf<'run-artifact'>): Promise<string | undefined> {
    const bytes = Buffer.from(data, 'base64')
    const isNext = this.#current?.name === name && part > 0
    const refused = isNext ? this.#current?.refused : undefined
    const result = refused === undefined ? await this.#writePart(name, part, bytes, final) : { refused }
    const unnamed = isNext ? undefined : this.end()
    this.#current = {
      name,
      bytes: (isNext ? (this.#current?.bytes ?? 0) : 0) + bytes.length,
      refused: typeof result === 'object' ? result.refused : undefined,
    }
    return (final ? this.end() : undefined) ?? unnamed
  }

  /** Returns the sentence about an artifact that was refused and whose last part has not arrived. */
  end(): string | undefined {
    const current = this.#current
    this.#current = undefined
    if (current?.refused === undefined) return undefined
    return `the artifact ${current.name} (${current.bytes} bytes) was not kept: ${current.refused}`
  }

  #writePart(name: string, part: number, bytes: Uint8Array, final: boolean) {
    const { artifacts, artifactBudget } = this.#ports
    return artifacts.write(this.#runId, name, part, bytes, final, artifactBudget())
  }
}
