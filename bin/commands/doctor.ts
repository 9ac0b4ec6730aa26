/**
 * `switchyard doctor`: checks this machine, its host or worker and their connections, and names a cure for each finding.
 *
 * It works with a running host and without one, and changes nothing but with `--fix`. The command is a program of its
 * own, because it validates the configuration, probes the sandbox and asks trackers and code hosts.
 */
import { type ClientOptions, type CommandContext, runCommand } from '../client/run-command.ts'
import { realClock } from '../clock.ts'
import { refuseExisting, writeBundle } from '../doctor/bundle.ts'
import { examine, type FixableFinding } from '../doctor/examine.ts'
import { type ExaminedMachine, examineThisMachine } from '../doctor/examined-machine.ts'
import type { Finding } from '../doctor/finding.ts'
import { applyFixes } from '../doctor/fixes.ts'
import { printFindings } from '../doctor/print-findings.ts'
import { CHECKS } from '../doctor/registry.ts'
import { EXIT } from '../exit.ts'
import type { Output } from '../output/output.ts'
import { ProgressLine } from '../output/progress-line.ts'

export interface DoctorOptions extends ClientOptions {
  readonly all?: boolean | undefined
  readonly fix?: boolean | undefined
  readonly bundle?: string | undefined
}

/** How long a check that hangs may keep the process alive after all is printed. */
const LINGER_MS_MAX = 1_000

export async function doctor(options: DoctorOptions): Promise<void> {
  await runCommand(options, (context) => examineAndPrint(context))
  setTimeout(() => process.exit(), LINGER_MS_MAX).unref()
}

/** @param examined what the checks look at; read anew after `--fix` */
export async function examineAndPrint(
  context: CommandContext<DoctorOptions>,
  examined: (context: CommandContext) => ExaminedMachine = examineThisMachine,
): Promise<number> {
  const { options, output } = context
  if (options.bundle !== undefined) await refuseExisting(options.bundle)
  let machine = examined(context)
  try {
    let found = await examineWithProgress(context, machine)
    const fixed = options.fix === true ? await applyFixes(found) : []
    if (fixed.length > 0) {
      await machine.close()
      machine = examined(context)
      found = await examineWithProgress(context, machine)
    }
    const findings = found.map((each) => toFinding(output, each))
    const mayFix = options.fix !== true && found.some(({ fix }) => fix !== undefined)
    if (output.format === 'json') output.json({ findings, ...(options.fix === true && { fixed }) })
    else printFindings(output, { findings, fixed, isWhole: options.all === true, mayFix })
    if (options.bundle !== undefined) {
      const names = await writeBundle(options.bundle, { context, machine, findings })
      output.note(`Wrote ${options.bundle} without secrets, readable by you alone: ${names.join(', ')}`)
    }
    return findings.some(({ status }) => status === 'fail') ? EXIT.refused : EXIT.done
  } finally {
    await machine.close()
  }
}

/** A tracker that does not answer is waited for, so a person sees which check takes long. */
async function examineWithProgress(
  { output }: CommandContext,
  machine: ExaminedMachine,
): Promise<readonly FixableFinding[]> {
  const progress = new ProgressLine(output, process.env)
  progress.begin('checking')
  try {
    return await examine(machine, CHECKS, realClock, (ids) => progress.update(ids.join(', ')))
  } finally {
    progress.finish()
  }
}

const toFinding = (output: Output, { id, status, message, cure }: FixableFinding): Finding => ({
  id,
  status,
  message,
  ...(cure === undefined ? {} : { cure: output.completeCommands(cure) }),
})
