/** Applies the fixes of findings: only changes that lose nothing and may be made twice. */
import { messageOf } from '../../store/errors.ts'
import type { FixableFinding } from './examine.ts'

export interface AppliedFix {
  readonly id: string
  /** The sentence that is true now, or why the fix failed. */
  readonly message: string
}

export async function applyFixes(findings: readonly FixableFinding[]): Promise<readonly AppliedFix[]> {
  const applied: AppliedFix[] = []
  for (const { id, fix } of findings) {
    if (fix === undefined) continue
    // The finding stays when its fix fails, and names the cure again.
    const message = await fix.apply().then(
      () => fix.result,
      (error: unknown) => `could not be mended: ${messageOf(error)}`,
    )
    applied.push({ id, message })
  }
  return applied
}
