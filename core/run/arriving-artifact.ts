/**
 * An artifact that the host receives in parts: its bytes so far, and why it is not kept.
 *
 * The bytes of a refused artifact are counted to its last part, because one sentence in the run's log names all of them.
 * The record is stored beside the lease's watermark, so that a restart changes nothing about that sentence.
 */
import { printable } from '../../protocol/schema-errors.ts'

export interface ArrivingArtifact {
  readonly name: string
  readonly bytes: number
  /** Why the artifact is not kept. */
  readonly refused?: string
}

export interface ArtifactPart {
  readonly name: string
  readonly part: number
  readonly final: boolean
  readonly bytes: number
}

export interface ArtifactArrival {
  /** Undefined after a last part. */
  readonly arriving: ArrivingArtifact | undefined
  /** Sentences about artifacts that are not kept. */
  readonly problems: readonly string[]
}

/** Whether the part belongs to the artifact, and does not begin a new one. */
export function isContinued(
  arriving: ArrivingArtifact | undefined,
  { name, part }: Omit<ArtifactPart, 'bytes' | 'final'>,
) {
  return arriving?.name === name && part > 0
}

/** Adds a part, with the reason when the part is refused. */
export function addPart(
  arriving: ArrivingArtifact | undefined,
  part: ArtifactPart,
  refused: string | undefined,
): ArtifactArrival {
  const own = isContinued(arriving, part) ? arriving : undefined
  const reason = own?.refused ?? refused
  const grown: ArrivingArtifact = {
    name: part.name,
    bytes: (own?.bytes ?? 0) + part.bytes,
    ...(reason === undefined ? {} : { refused: reason }),
  }
  const ended = [...(own === undefined ? [arriving] : []), ...(part.final ? [grown] : [])]
  return { arriving: part.final ? undefined : grown, problems: ended.flatMap(describeRefused) }
}

/** Returns the sentence about an artifact that is not kept; empty for another artifact. */
export function describeRefused(artifact: ArrivingArtifact | undefined): readonly string[] {
  if (artifact?.refused === undefined) return []
  return [
    `the artifact ${printable(artifact.name)} (${artifact.bytes} bytes) was not kept: ${artifact.refused}`,
  ]
}
