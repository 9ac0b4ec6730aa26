/** Artifacts in memory, which refuses the same names and keeps the same parts as the store on disk. */
import type { ArtifactLookup, Artifacts } from '../../core/ports/store.ts'
import { contentTypeOf } from '../../core/run/content-type.ts'
import { ARTIFACT_BYTES_MAX, ARTIFACT_PART_BYTES_MAX, RUN_ARTIFACTS_MAX } from '../../protocol/limits.ts'
import { StoreClosed } from '../../store/errors.ts'
import { artifactNameFault } from '../../store/files/artifact-name.ts'
import { describeEarlyPart, describeFullBudget } from '../../store/files/artifacts.ts'

type MemoryWriteResult = 'kept' | 'repeat' | { readonly refused: string }

interface RunArtifacts {
  readonly whole: Map<string, Buffer>
  readonly drafts: Map<string, Buffer[]>
  /** Why an unfinished artifact was refused, by name, until its part 0 comes again. */
  readonly refusals: Map<string, string>
}

export class MemoryArtifacts implements Artifacts {
  readonly #byRun = new Map<string, RunArtifacts>()
  #closed = false

  async write(
    runId: string,
    name: string,
    part: number,
    data: Uint8Array,
    final: boolean,
    runBytesMax = Number.POSITIVE_INFINITY,
  ): Promise<MemoryWriteResult> {
    const fault = artifactNameFault(name)
    if (fault !== undefined) return { refused: fault }
    if (!Number.isSafeInteger(part) || part < 0) return { refused: 'no number of a part' }
    if (data.length > ARTIFACT_PART_BYTES_MAX)
      return { refused: `a part is at most ${ARTIFACT_PART_BYTES_MAX} bytes` }
    if (this.#closed) throw new StoreClosed('the store is closed')
    const artifacts = this.#artifactsOf(runId)
    const result =
      this.#earlyResult(artifacts, name, part, data, final) ??
      refuseAboveBudget(artifacts, name, part, data, runBytesMax) ??
      keepPart(artifacts, name, part, Buffer.from(data), final)
    if (typeof result === 'object' && artifacts.drafts.delete(name) && part > 0)
      artifacts.refusals.set(name, result.refused)
    return result
  }

  async find(runId: string, name: string): Promise<ArtifactLookup> {
    const fault = artifactNameFault(name)
    if (fault !== undefined) return { is: 'escape', reason: fault }
    const bytes = this.#byRun.get(runId)?.whole.get(name)
    if (bytes === undefined) return { is: 'missing' }
    return { is: 'file', size: bytes.length, ...contentTypeOf(name), read: () => singleChunk(bytes) }
  }

  async names(runId: string): Promise<string[]> {
    return [...(this.#byRun.get(runId)?.whole.keys() ?? [])].sort()
  }

  async remove(runId: string, name?: string): Promise<void> {
    if (this.#closed) throw new StoreClosed('the store is closed')
    if (name === undefined) this.#byRun.delete(runId)
    else for (const artifacts of Object.values(this.#byRun.get(runId) ?? {})) artifacts.delete(name)
  }

  close(): void {
    this.#closed = true
  }

  /** Returns the result when the part is not to be stored; undefined otherwise. */
  #earlyResult(
    { whole, drafts, refusals }: RunArtifacts,
    name: string,
    part: number,
    data: Uint8Array,
    final: boolean,
  ): MemoryWriteResult | undefined {
    const draft = drafts.get(name)
    if (draft?.length === part) return undefined
    if (part > 0) {
      const refused = refusals.get(name)
      if (refused !== undefined) return { refused }
      if (draft !== undefined && part < draft.length) return 'repeat'
      if (draft === undefined && whole.has(name)) return 'repeat'
      return { refused: describeEarlyPart(name, part, draft?.length ?? 0) }
    }
    if (!final && draft?.length === 1 && draft[0]?.equals(data)) return 'repeat'
    if (final && draft === undefined && whole.get(name)?.equals(data)) return 'repeat'
    if (whole.size + drafts.size + refusals.size < RUN_ARTIFACTS_MAX) return undefined
    const all = new Set([...whole.keys(), ...drafts.keys(), ...refusals.keys()])
    if (all.size < RUN_ARTIFACTS_MAX || all.has(name)) return undefined
    return { refused: `the run has ${RUN_ARTIFACTS_MAX} artifacts already` }
  }

  #artifactsOf(runId: string): RunArtifacts {
    const artifacts = this.#byRun.get(runId) ?? {
      whole: new Map(),
      drafts: new Map(),
      refusals: new Map(),
    }
    this.#byRun.set(runId, artifacts)
    return artifacts
  }
}

function refuseAboveBudget(
  { whole, drafts, refusals }: RunArtifacts,
  name: string,
  part: number,
  data: Uint8Array,
  runBytesMax: number,
): MemoryWriteResult | undefined {
  // A first part replaces an unfinished artifact.
  if (part === 0) {
    drafts.delete(name)
    refusals.delete(name)
  }
  if (runBytesMax === Number.POSITIVE_INFINITY) return undefined
  const draftBytes = (each: string) => (drafts.get(each) ?? []).reduce((sum, { length }) => sum + length, 0)
  let bytes = draftBytes(name) + data.length
  // A draft and the artifact that it replaces do not both remain.
  for (const stored of new Set([...whole.keys(), ...drafts.keys()]))
    if (stored !== name) bytes += Math.max(whole.get(stored)?.length ?? 0, draftBytes(stored))
  return bytes <= runBytesMax ? undefined : { refused: describeFullBudget(runBytesMax) }
}

function keepPart(
  { whole, drafts }: RunArtifacts,
  name: string,
  part: number,
  data: Buffer,
  final: boolean,
): MemoryWriteResult {
  const parts = [...(part === 0 ? [] : (drafts.get(name) ?? [])), data]
  if (parts.reduce((sum, each) => sum + each.length, 0) > ARTIFACT_BYTES_MAX) {
    return { refused: `${name} is larger than ${ARTIFACT_BYTES_MAX} bytes` }
  }
  if (final) {
    whole.set(name, Buffer.concat(parts))
    drafts.delete(name)
  } else drafts.set(name, parts)
  return 'kept'
}

async function* singleChunk(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes
}
