/** Reports a text of the worker as an artifact of the run. */
import type { ExecutionReporter } from '../../core/daemon/ports.ts'
import { contentTypeOf } from '../../core/run/content-type.ts'
import { ARTIFACT_PART_BYTES_MAX } from '../../protocol/limits.ts'

export function reportTextArtifact(
  reporter: Pick<ExecutionReporter, 'report'>,
  at: string,
  name: string,
  text: string,
): void {
  const bytes = Buffer.from(text)
  const parts = Math.max(1, Math.ceil(bytes.length / ARTIFACT_PART_BYTES_MAX))
  for (let part = 0; part < parts; part++) {
    const piece = bytes.subarray(part * ARTIFACT_PART_BYTES_MAX, (part + 1) * ARTIFACT_PART_BYTES_MAX)
    const final = part === parts - 1
    reporter.report({ is: 'artifact', name, part, final, data: piece.toString('base64') })
  }
  const { contentType } = contentTypeOf(name)
  reporter.report({ is: 'event', event: { type: 'artifact', at, name, size: bytes.length, contentType } })
}
