/**
 * Faults that are put into the product on purpose, one at a time: the simulation must detect each of them.
 *
 * A mutant replaces a text that occurs exactly once in its file; any other count is an error, so the list stays
 * current. Few seeds find a `quick` mutant, so the tests try it every time.
 */
export interface Mutant {
  readonly name: string
  readonly file: string
  readonly find: string
  readonly replace: string
  readonly quick?: true
  /** Seeds in which a controller starts a machine for each wanted run. */
  readonly withController?: true
  /** Seeds in each of which the host's disk is damaged. */
  readonly withHostDamage?: true
}

const COMMIT_LOOP = 'actors/runtime/commit-loop.ts'
const ACTOR_SYSTEM = 'actors/runtime/actor-system.ts'
const FRAME_RECEIVER = 'actors/leases/frame-receiver.ts'
const LEASE_LOG = 'actors/leases/lease-log.ts'
const LEASE_MACHINE = 'actors/leases/lease.machine.ts'
const LEASE_MANAGER = 'actors/leases/lease-manager.ts'
const RUN_MACHINE = 'actors/runs/run.machine.ts'
const WATERMARK = 'core/lease/watermark.ts'

const commit: readonly Mutant[] = [
  {
    name: 'effects run before the flush',
    file: COMMIT_LOOP,
    find: 'if (writes.length > 0) await this.#options.database.commit(writes)',
    replace: 'if (writes.length > 0) void this.#options.database.commit(writes).catch(() => {})',
    quick: true,
  },
  {
    name: 'ended actors are not erased',
    file: COMMIT_LOOP,
    find: 'if (!erase || durable !== undefined) {',
    replace: 'if (!erase) {',
  },
  {
    name: 'two commits at the same time',
    file: COMMIT_LOOP,
    find: 'this.#committing = true\n    this.#runBeforeCommit()',
    replace: 'this.#runBeforeCommit()\n    this.#committing = true',
  },
  {
    name: 'participants’ writes are a commit of their own',
    file: COMMIT_LOOP,
    find: 'for (const write of contribution.writes) writes.push(write)',
    replace: 'void this.#options.database.commit(contribution.writes)',
  },
  {
    name: 'restored actors skip the outputs that their state implies',
    file: ACTOR_SYSTEM,
    find: 'for (const actor of restored)\n      this.#deliverOutputs(actor.kind.impliedOutputs?.(actor.key, actor.lastGood) ?? [])',
    replace: '',
  },
]

const frames: readonly Mutant[] = [
  {
    name: 'a frame with an unknown key is refused',
    file: 'protocol/parse.ts',
    find: ': check(removeUnknownKeys(asShape(schema), value))',
    replace: ': check(value)',
    quick: true,
  },
  {
    name: 'a frame of an unknown type closes the connection',
    file: 'actors/workers/worker-frame-router.ts',
    find: 'if (!read.ok && read.isUnknownType) {',
    replace: 'if (!read.ok && read.isUnknownType && text === "") {',
  },
  {
    name: 'a log text that its worker did not split is refused',
    file: 'protocol/frames.ts',
    find: 'checkByType(receivedFrames, createOpenChecker)',
    replace: 'checkByType(workerFrames, createOpenChecker)',
  },
  {
    name: 'a long log text is stored as one event',
    file: LEASE_LOG,
    find: 'for (const part of splitLogEvent(printableTexts(event))) this.#appendPart(part)',
    replace: 'this.#appendPart(event)',
  },
  {
    name: 'late frames of a completed lease are answered as lost',
    file: 'actors/workers/lease-reconciliation.ts',
    find: "if (howItEnded === 'completed') {",
    replace: "if (howItEnded === 'completed' && leaseId === '') {",
  },
  {
    name: 'the watermark in memory is acknowledged',
    file: FRAME_RECEIVER,
    find: 'return progress.durable.mark',
    replace: 'return progress.applied.mark',
  },
  {
    name: 'early frames are applied',
    file: WATERMARK,
    find: "return seq === mark + 1 ? 'next' : 'early'",
    replace: "return 'next'",
  },
  {
    name: 'repeated frames are applied',
    file: WATERMARK,
    find: "if (seq <= mark) return 'repeat'",
    replace: "if (seq <= mark) return 'next'",
  },
  {
    name: 'a repeated gap moves the watermark back',
    file: WATERMARK,
    find: "if (to <= mark) return 'repeat'",
    replace: '',
  },
  {
    name: 'a gap covers frames that were not applied',
    file: WATERMARK,
    find: "return from > mark + 1 ? 'early' : [mark + 1, to]",
    replace: 'return [mark + 1, to]',
  },
  {
    name: 'any worker may report on any lease',
    file: FRAME_RECEIVER,
    find: 'if (progress === undefined || progress.workerId !== workerId) return false',
    replace: 'if (progress === undefined) return false',
  },
  {
    name: 'frames of a revoked worker are applied',
    file: FRAME_RECEIVER,
    find: 'ignoreWorker(workerId: string): void {',
    replace: 'ignoreWorker(workerId: string): void {\n    if (workerId !== "") return',
  },
  {
    name: 'an artifact counts before it is on disk',
    file: FRAME_RECEIVER,
    find: 'this.#applyAfterWrite(progress, bytes, frame.seq, () => progress.artifacts.write(frame))\n        return',
    replace: 'void progress.artifacts.write(frame)\n        break',
    quick: true,
  },
  {
    name: 'later parts of an artifact are dropped',
    file: 'actors/leases/lease-artifacts.ts',
    find: 'const isRefused = isContinued(this.#arriving, frame) && this.#arriving?.refused !== undefined',
    replace: 'const isRefused = isContinued(this.#arriving, frame)',
    quick: true,
  },
  {
    name: 'a usage snapshot counts before it is on disk',
    file: FRAME_RECEIVER,
    find: 'this.#applyAfterWrite(progress, bytes, frame.seq, () => this.#writeUsage(frame))\n        return',
    replace: 'void this.#writeUsage(frame)\n        break',
  },
  {
    name: 'the log of a run has no budget',
    file: LEASE_LOG,
    find: 'logBytesMaxFor(event, logBudget(this.#context.config()))',
    replace: 'Number.POSITIVE_INFINITY + 0 * logBytesMaxFor(event, logBudget(this.#context.config()))',
  },
  {
    name: 'what the budget leaves out is not named',
    file: LEASE_LOG,
    find: 'this.#appendNotice(describeLeftOut(this.#leftOutBytes))',
    replace: 'describeLeftOut(this.#leftOutBytes)',
  },
  {
    name: 'memories are dropped',
    file: FRAME_RECEIVER,
    find: 'this.#modules.jobs.preparation.recordMemories(progress.runId, frame.repo, frame.facts)',
    replace: 'undefined',
  },
  {
    name: 'patches are dropped',
    file: FRAME_RECEIVER,
    find: 'this.#modules.runs.send(runId, {',
    replace: 'void ({ runId,',
  },
  {
    name: 'a restart forgets the watermarks',
    file: FRAME_RECEIVER,
    find: "restored && !isUnreadable\n        ? (this.#context.store.database.keyValues.get('mark', lease.id) as StoredProgress | undefined)\n        : undefined",
    replace: 'undefined as StoredProgress | undefined',
  },
  {
    name: 'the event log does not advance its end',
    file: 'actors/runs/run-event-log.ts',
    find: 'pending.first += count',
    replace: '',
  },
  {
    name: 'costs are added again with every report',
    file: 'core/run/run-transitions.ts',
    find: 'replaceLeaseCosts(run.costs, by.costsBefore, costs, by.label)',
    replace: '[...run.costs, ...costs]',
  },
  {
    name: 'every late completion is acknowledged',
    file: 'actors/workers/lease-reconciliation.ts',
    find: "if (howItEnded === 'completed') {",
    replace: 'if (howItEnded !== undefined) {',
  },
]

const leases: readonly Mutant[] = [
  {
    name: 'a lost offer is declined at once',
    file: LEASE_MACHINE,
    find: "'worker lost': 'unconfirmed',",
    replace: "'worker lost': { target: 'closed', actions: ['endDeclined', 'tellDeclined'] },",
  },
  {
    name: 'a returning worker’s claim is ignored',
    file: LEASE_MACHINE,
    find: "'worker claimed lease': 'held',",
    replace: "'worker claimed lease': 'adrift',",
  },
  {
    name: 'a declined run is forgotten',
    file: LEASE_MACHINE,
    find: "rejected: { target: 'closed', actions: ['endDeclined', 'reportDeclined'] },",
    replace: "rejected: { target: 'closed', actions: ['endDeclined'] },",
  },
  {
    name: 'a cancelled run does not learn that the wait is over',
    file: LEASE_MACHINE,
    find: "'cancel timed out': { target: 'closed', actions: ['endFenced', 'reportCancelEnforced', 'fence'] },",
    replace: "'cancel timed out': { target: 'closed', actions: ['endFenced', 'fence'] },",
  },
  {
    name: 'an expired lease does not report its run as lost',
    file: LEASE_MACHINE,
    find: "'lease expired': { target: 'closed', actions: ['endExpired', 'reportLost', 'fence'] },",
    replace: "'lease expired': { target: 'closed', actions: ['endExpired', 'fence'] },",
  },
  {
    name: 'restored leases wait without a deadline',
    file: LEASE_MACHINE,
    find: "return [accepted, effect({ type: 'lease.await worker', leaseId: key, arrived: true })]",
    replace: 'return [accepted]',
  },
  {
    name: 'the grace is a third of the promise',
    file: LEASE_MANAGER,
    find: 'if (arrived) return leaseDeadline(lastFrameAt, termMs)',
    replace: 'if (arrived) return leaseDeadline(lastFrameAt, termMs / 3)',
  },
  {
    name: 'a restart grants one second',
    file: LEASE_MANAGER,
    find: '? leaseDeadline(this.#startedAt, termMs)',
    replace: '? leaseDeadline(this.#startedAt, 1_000)',
  },
  {
    name: 'the worker is promised twice the term',
    file: 'actors/leases/lease-acknowledgements.ts',
    find: 'leaseDeadline(worker.lastFrameAt, lease.termMs) - timers.now()',
    replace: 'leaseDeadline(worker.lastFrameAt, lease.termMs * 2) - timers.now()',
  },
  {
    name: 'an offer has no answer deadline',
    file: LEASE_MANAGER,
    find: "timers.set(LEASE_TIMER.key(lease.id), 'answer', timers.now() + DISPATCH_ANSWER_MS)",
    replace: '',
  },
  {
    name: 'an execution begins however late its acceptance leaves',
    file: 'actors/daemon/executions.ts',
    find: 'if (isSameConnection && isInTime) this.#start(leaseId)',
    replace: 'if (leaseId) this.#start(leaseId)',
  },
  {
    name: 'a cancel has no answer deadline',
    file: LEASE_MANAGER,
    find: "timers.set(LEASE_TIMER.key(leaseId), 'cancel', timers.now() + CANCEL_ANSWER_MS)",
    replace: '',
  },
]

const runs: readonly Mutant[] = [
  {
    name: 'a declined run keeps its lease',
    file: RUN_MACHINE,
    find: 'release: assign({ lease: null }),',
    replace: 'release: assign({}),',
  },
  {
    name: 'an interrupted run keeps its lease',
    file: RUN_MACHINE,
    find: 'lease: null,\n      interruptions: context.interruptions + 1,',
    replace: 'interruptions: context.interruptions + 1,',
  },
  {
    name: 'a cancelled offer stays an offer',
    file: RUN_MACHINE,
    find: "{ target: 'cancelled', actions: ['requestCancel', 'cancel'] },",
    replace: "{ target: 'cancelled', actions: ['cancel'] },",
  },
  {
    name: 'an interrupted run is never queued again',
    file: RUN_MACHINE,
    find: "    { guard: 'mayTryAgain', target: 'queued', actions: 'requeue' },\n",
    replace: "    { target: 'running' },\n",
  },
]

const workers: readonly Mutant[] = [
  {
    name: 'a foreign host makes a worker delete its credential',
    file: 'core/daemon/rejection.ts',
    find: 'if (ownInstallation === undefined || ownInstallation === rejectedBy)',
    replace: 'if (ownInstallation !== reason)',
    quick: true,
  },
  {
    name: 'a dispatch does not check the worker’s state again',
    file: LEASE_MANAGER,
    find: "if (member.state !== 'active' || durable === undefined || durable.value === 'draining')",
    replace: 'if (durable === undefined)',
  },
  {
    name: 'a worker gets one lease more than its slots',
    file: 'actors/workers/worker-registry.ts',
    find: 'return this.leases.size',
    replace: 'return Math.max(0, this.leases.size - 1)',
  },
  {
    name: 'a run goes at once to the worker that gave it back',
    file: 'actors/workers/setbacks.ts',
    find: 'setNewest(worker.setbacks, subject, setback)',
    replace: '',
  },
  {
    name: 'a pairing token stays valid',
    file: 'actors/workers/join-keys.ts',
    find: 'this.#tokens.delete(hash)\n    return found',
    replace: 'return found',
  },
  {
    name: 'a join key has more workers than seats',
    file: 'core/fleet/admission.ts',
    find: 'maxWorkers !== undefined && workers >= maxWorkers',
    replace: 'maxWorkers !== undefined && workers > maxWorkers',
    quick: true,
  },
  {
    name: 'an ephemeral worker whose line was replaced counts as gone',
    file: 'actors/workers/worker-registration.ts',
    find: "connections.markRegistered(connection, workerId)\n    // Last, because the end of a replaced connection counts an ephemeral worker as gone.\n    system.send(WORKER, workerId, { type: 'seen', at, capabilities: frame.capabilities })",
    replace:
      "system.send(WORKER, workerId, { type: 'seen', at, capabilities: frame.capabilities })\n    connections.markRegistered(connection, workerId)",
  },
  {
    name: 'a worker that left its seat comes back without one',
    file: 'actors/workers/worker-registration.ts',
    find: 'return !isEnding || used > 0 ||',
    replace: 'return isEnding || !isEnding || used > 0 ||',
  },
  {
    name: 'an ephemeral worker is removed although it has a lease',
    file: 'actors/workers/worker-manager.ts',
    find: 'online || leases.size > 0 || !isOpen()',
    replace: 'online || !isOpen()',
    quick: true,
  },
  {
    name: 'a worker that registers early is not enrolled',
    file: 'actors/workers/worker-registration.ts',
    find: 'if (worker === undefined || !proved) {',
    replace: 'if (worker === undefined || !proved || connection.lastFrameAt < 5_000) {',
  },
]

const FRAME_OUTBOX = 'actors/daemon/frame-outbox.ts'
const OUTBOX = 'core/lease/outbox.ts'
const HOST_FRAME_ROUTER = 'actors/daemon/host-frame-router.ts'
const EXECUTIONS = 'actors/daemon/executions.ts'
const EXECUTION_MACHINE = 'actors/daemon/execution.machine.ts'
const DISPATCH_ADMISSION = 'actors/daemon/dispatch-admission.ts'
const EXECUTION_RUNNER = 'actors/daemon/execution-runner.ts'

const reports: readonly Mutant[] = [
  {
    name: 'a frame is sent before it is on disk',
    file: OUTBOX,
    find: 'if (seq > this.#savedSeq) return undefined',
    replace: 'if (seq > this.#lastSeq) return undefined',
    quick: true,
  },
  {
    name: 'sent frames count as acknowledged',
    file: FRAME_OUTBOX,
    find: 'const isNew = lease.outbox.acknowledge(seq)',
    replace: 'const isNew = lease.outbox.acknowledge(Math.max(seq, lease.sentSeq ?? 0))',
    quick: true,
  },
  {
    name: 'frame numbers start again after a restart',
    file: OUTBOX,
    find: 'this.#takenAck = this.#lastSeq = acked\n',
    replace: 'this.#takenAck = acked\n',
  },
  {
    name: 'everything is sent again after each acknowledgement',
    file: FRAME_OUTBOX,
    find: 'if (lease.sentSeq === undefined || lease.sentSeq <= seq || isRepeated) {',
    replace: 'if (lease.sentSeq !== null) {',
  },
  {
    name: 'a gap is sent before it is on disk',
    file: OUTBOX,
    find: 'if (this.#isUnsaved(gap)) return undefined',
    replace: 'if (gap.to > this.#savedSeq) return undefined',
  },
  {
    name: 'a gap is not put on disk',
    file: OUTBOX,
    find: "this.#changes.set(to, { as: 'gap', from })",
    replace: 'void [from, to]',
  },
  {
    name: 'a completion may be dropped',
    file: OUTBOX,
    find: "const droppable = metadata.as === 'may' || metadata.as === 'part'",
    replace: "const droppable = metadata.as === 'may' || metadata.as === 'part' || metadata.as === 'end'",
  },
  {
    name: 'patches may be dropped',
    file: OUTBOX,
    find: "const droppable = metadata.as === 'may' || metadata.as === 'part'",
    replace: "const droppable = metadata.as !== 'end'",
  },
]

const executions: readonly Mutant[] = [
  {
    name: 'the costs of a lost lease are forgotten',
    file: 'actors/daemon/executions.ts',
    find: 'if (costs.length > 0) settlements.add(',
    replace: 'if (costs.length < 0) settlements.add(',
    quick: true,
  },
  {
    name: 'the costs of an execution that dies with its daemon are forgotten',
    file: 'actors/daemon/reports.ts',
    find: 'if (fields.costs.length === 0 && costs.length > 0) {',
    replace: 'if (fields.costs.length < 0) {',
  },
  {
    name: 'costs that the host did not acknowledge are not repeated',
    file: HOST_FRAME_ROUTER,
    find: '        settlements.repeat()\n',
    replace: '',
  },
  {
    name: 'costs that are reported again count again',
    file: 'actors/leases/ended-leases.ts',
    find: 'return this.#settled.has(leaseId) || isStored',
    replace: 'return this.#settled.has(leaseId) && isStored',
  },
  {
    name: 'a dispatch is accepted before its execution is on disk',
    file: DISPATCH_ADMISSION,
    find: 'if (pending.cancelReason !== undefined) executions.cancel(id, pending.cancelReason)',
    replace: "hostSender.send({ type: 'dispatch-accepted', leaseId: id })",
    quick: true,
  },
  {
    name: 'a withdrawn offer is executed',
    file: DISPATCH_ADMISSION,
    find: 'hostSender.connectionKey !== connectionKey || pending.isWithdrawn)',
    replace: 'hostSender.connectionKey !== connectionKey)',
  },
  {
    name: 'a lease’s end is counted from the acknowledgement',
    file: HOST_FRAME_ROUTER,
    find: 'const since = echo === undefined ? hostSender.registeredAt : Math.min(echo, timers.now())',
    replace: 'const since = timers.now()',
  },
  {
    name: 'a lease has no end on the worker',
    file: EXECUTIONS,
    find: "this.#context.timers.at(EXECUTION_TIMER.key(leaseId), 'expiry', until)",
    replace: 'return',
  },
  {
    name: 'a finished execution expires',
    file: EXECUTIONS,
    find: "if (after.value === 'finished') timers.cancelAll(EXECUTION_TIMER.key(key))",
    replace: '',
  },
  {
    name: 'a lost lease is still executed',
    file: HOST_FRAME_ROUTER,
    find: '        executions.loseLease(frame.leaseId,',
    replace: '        void (frame.leaseId,',
  },
  {
    name: 'a publishing execution is not stopped',
    file: 'actors/daemon/execution-runner.ts',
    find: 'if (this.#isGone || stopOrder === undefined) return',
    replace: 'if (this.#isGone || this.#isEnding || stopOrder === undefined) return',
  },
  {
    name: 'an interrupted execution is forgotten',
    file: EXECUTION_MACHINE,
    find: "return [eventTo(EXECUTION, key, { type: 'daemon restarted', reason })]",
    replace: 'return reason.length > 0 ? [] : []',
  },
  {
    name: 'published work is reported as lost',
    file: 'core/daemon/outcome.ts',
    find: 'if (prUrl === undefined) return {',
    replace: 'if (prUrl !== null) return {',
  },
  {
    name: 'an address of another repository is kept',
    file: 'core/run/run-pull.ts',
    find: 'if (isSameName(found.remote, place.remote))',
    replace: "if (found.remote !== '')",
  },
  {
    name: 'a pull request of another branch is confirmed',
    file: 'core/run/run-pull.ts',
    find: 'if (headBranch !== branch)',
    replace: "if (headBranch === '')",
  },
  {
    name: 'finished leases are not claimed',
    file: EXECUTIONS,
    find: 'const claimed = this.#parts.lookup.all().filter(({ fields }) => isClaimed(fields))',
    replace:
      "const claimed = this.#parts.lookup.all().filter(({ fields, state }) => state !== 'finished' && isClaimed(fields))",
  },
  {
    name: 'abandoned leases are not claimed while their processes exit',
    file: EXECUTIONS,
    find: '!isLeaseLost(fields) || this.#givenUpClaims.has(fields.leaseId)',
    replace: '!isLeaseLost(fields)',
  },
  {
    name: 'a run that is given back before its agent began counts as interrupted',
    file: RUN_MACHINE,
    find: "actions: 'requeueUnbegun'",
    replace: "actions: 'requeueInterrupted'",
  },
  {
    name: 'an execution whose agent works counts as unbegun',
    file: EXECUTION_MACHINE,
    find: 'noteBegun: assign({ begun: true })',
    replace: 'noteBegun: assign({ begun: false })',
  },
  {
    name: 'the last heartbeat releases leases whose processes still run',
    file: EXECUTIONS,
    find: 'this.#givenUpClaims.keepOnly((leaseId) => this.#parts.runner.occupiedRuns.has(leaseId))',
    replace: 'this.#givenUpClaims.keepOnly(() => false)',
  },
  {
    name: 'a sandbox is discarded during an execution',
    file: EXECUTION_RUNNER,
    find: 'if (isUnfinished || this.isOccupied(runId) || this.#parts.unstoredEnds.has(runId)) continue',
    replace: 'if (this.#parts.unstoredEnds.has(runId)) continue',
  },
  {
    name: 'a run starts beside its older execution',
    file: EXECUTION_RUNNER,
    find: 'if (runId !== undefined && this.isOccupied(runId)) continue',
    replace: '',
  },
]

const RESUMED_SANDBOX_MACHINE = 'actors/daemon/resumed-sandbox.machine.ts'
const TERMINAL_SESSIONS = 'actors/terminals/terminal-sessions.ts'
const SESSION_COSTS = 'actors/terminals/session-costs.ts'

const sessions: readonly Mutant[] = [
  {
    name: 'a sandbox without viewers stays booted',
    file: RESUMED_SANDBOX_MACHINE,
    find: "      entry: 'awaitReturn',\n",
    replace: '',
  },
  {
    name: 'a session survives a lost host for ever',
    file: RESUMED_SANDBOX_MACHINE,
    find: "      entry: 'awaitConnection',\n",
    replace: '',
  },
  {
    name: 'the host keeps sandboxes without viewers',
    file: TERMINAL_SESSIONS,
    find: "if (state === 'unwatched') return ATTACH_GRACE_MS",
    replace: '',
  },
  {
    name: 'a boot has no deadline',
    file: TERMINAL_SESSIONS,
    find: "if (state === 'booting') return ATTACH_BOOT_MS_MAX",
    replace: '',
  },
  {
    name: 'an absent worker’s sessions have no deadline',
    file: TERMINAL_SESSIONS,
    find: "return state === 'disconnected' ? this.#ports.timeouts().reconnectGraceSeconds * 1000 : undefined",
    replace: 'return undefined',
  },
  {
    name: 'a release for an absent worker is forgotten',
    file: TERMINAL_SESSIONS,
    find: 'this.#unsentReleases.set(workerId, unsent.add(runId))',
    replace: '',
  },
  {
    name: 'a closed view is still counted',
    file: TERMINAL_SESSIONS,
    find: '    this.#views.delete(view.sessionId)\n',
    replace: '',
  },
  {
    name: 'a release is sent only for a sandbox that this host has booted',
    file: TERMINAL_SESSIONS,
    find: 'else if (workerId !== undefined) this.#sendRelease({ runId, workerId })',
    replace: '',
  },
  {
    name: 'a release is ignored',
    file: HOST_FRAME_ROUTER,
    find: '        resumedSandboxes.release(frame.runId)\n',
    replace: '',
  },
  {
    name: 'a release during the boot is ignored',
    file: RESUMED_SANDBOX_MACHINE,
    find: ", 'release requested': 'releasedEarly' },",
    replace: ' },',
  },
  {
    name: 'a sandbox is discarded while it is booted',
    file: HOST_FRAME_ROUTER,
    find: "resumedSandboxes.runAfterClosing(runId, () => runner.discard(runId), 'the run was discarded')",
    replace: 'void resumedSandboxes\n    runner.discard(runId)',
  },
  {
    name: 'a run is executed while its sandbox is booted',
    file: DISPATCH_ADMISSION,
    find: "if (resumedSandboxes.has(runId)) return 'busy: somebody is in the sandbox of this run'",
    replace: 'void resumedSandboxes',
  },
  {
    name: 'a run is retried while its sandbox is booted',
    file: 'core/run/permission.ts',
    find: "  if (facts.booted) return inUse(run)\n  if (facts.competingRun !== undefined)\n    return no('conflict', activeRunMessage(run.ticket, facts.competingRun))\n  return",
    replace: '  return',
  },
  {
    name: 'a booted sandbox may be reclaimed',
    file: 'actors/daemon/daemon.module.ts',
    find: ' || resumedSandboxes.has(runId)',
    replace: '',
  },
  {
    name: 'a booted sandbox may be discarded to make room',
    file: 'actors/daemon/dispatch-admission.ts',
    find: ' || this.#resumedSandboxes.has(runId)) return true',
    replace: ') return true',
  },
  {
    name: 'a worker deletes what has expired by its own clock alone',
    file: 'core/trusted-clock.ts',
    find: 'hosts !== undefined && isSameTime(own, hosts)',
    replace: 'own > 0',
  },
  {
    name: 'a host deletes by a clock that counts as wrong',
    file: 'actors/clock/trusted-clock.ts',
    find: 'return fault === undefined ? wall : undefined',
    replace: 'return wall',
    quick: true,
  },
  {
    name: 'sandboxes are reclaimed only once',
    file: 'actors/daemon/daemon.module.ts',
    find: "if (!this.#isStopped) timers.in(DISK_RECLAIM_TIMER.key(), 'again', RECLAIM_MS)",
    replace: '',
  },
  {
    name: 'views are not opened again after a reconnect',
    file: TERMINAL_SESSIONS,
    find: 'else for (const view of [...session.views]) view.open()',
    replace: '',
  },
  {
    name: 'earlier output is missing from the screen',
    file: 'actors/daemon/terminal-broadcast.ts',
    find: '    void this.#drawOnScreen(output)\n',
    replace: '',
  },
  {
    name: 'views are not counted',
    file: 'actors/daemon/host-connection.ts',
    find: 'attachSessions: this.#modules.resumedSandboxes.viewCount,',
    replace: 'attachSessions: 0,',
  },
  {
    name: 'a session receives more credentials than it needs',
    file: 'actors/terminals/module.ts',
    find: '...(agent === undefined ? {} : { agent }),\n          ...(settings.keyInSandbox',
    replace:
      "codehost: 'token',\n          ...(agent === undefined ? {} : { agent }),\n          ...(settings.keyInSandbox",
    quick: true,
  },
  {
    name: 'a credential is logged',
    file: TERMINAL_SESSIONS,
    find: "log.info({ run: runId, worker: workerId }, 'a sandbox is being resumed for a person')",
    replace:
      "log.info({ run: runId, is: this.#ports.credentials() }, 'a sandbox is being resumed for a person')",
  },
  {
    name: 'each session costs as much as all sessions',
    file: SESSION_COSTS,
    find: 'session.sinces?.[project] ?? session.since ?? (await this.#accountedUntil(session, key))',
    replace: "session.sinces?.[project] ?? ''",
  },
  {
    name: 'a session costs nothing',
    file: 'actors/workers/unleased-usage.ts',
    find: 'await this.#modules.terminals.sessionCosts.addExport(workerId, key, entries)',
    replace: 'void [workerId, entries]',
  },
]

const followUps: readonly Mutant[] = [
  {
    name: 'each offer of a follow-up has another id',
    file: 'actors/runs/job-preparation.ts',
    find: 'const { isInstructed = false, ...followUp } = stored',
    replace:
      'const { isInstructed = false, ...rest } = stored\nconst followUp = { ...rest, id: String(this.#context.clock.now()) }',
  },
  {
    name: 'a follow-up’s costs are labelled as an attempt',
    file: RUN_MACHINE,
    find: 'labelFor(job, followUp?.number ?? attempts)',
    replace: "labelFor('run', followUp === null ? 1 : job.length + attempts)",
  },
  {
    name: 'a follow-up that failed fails its run',
    file: RUN_MACHINE,
    find: 'finishFollowUp: assign(afterFollowUpFailed)',
    replace: 'finishFollowUp: assign(afterEnd)',
  },
  {
    name: 'all follow-ups of a run have one id',
    file: 'actors/api/follow-ups.ts',
    find: 'id: context.ids.followUp(),',
    replace: 'id: run.id,',
  },
]

const tickets: readonly Mutant[] = [
  {
    name: 'the ticket of a run that left nothing stays started',
    file: 'actors/tracker/ticket-progress.ts',
    find: 'intake.moveTicket(id, release.state, { only: release.from })',
    replace: '',
    quick: true,
  },
  {
    name: 'a released ticket runs again by itself',
    file: 'core/tickets/run-progress.ts',
    find: 'return lastFinishedAt === undefined || lastFinishedAt < memory.since',
    replace: 'return true',
  },
  {
    name: 'the host’s own moves count as changes',
    file: 'actors/tracker/ticket-intake.ts',
    find: '    this.#rememberState(ticketId, state)\n    this.moves.request(',
    replace: '    this.moves.request(',
    quick: true,
  },
]

const explanations: readonly Mutant[] = [
  {
    name: 'a waiting run passes every gate',
    file: 'core/explain/explain-gates.ts',
    find: "return gate.status === 'pass' && waitsFor?.gate === id ? wait(id, waitsFor.reason, waitsFor.cure) : gate",
    replace: 'return pass(id, gate.message)',
    quick: true,
  },
]

const owners: readonly Mutant[] = [
  {
    name: 'a host that was taken over still sends',
    file: 'actors/workers/worker-connections.ts',
    find: "return this.#context.store.database.state().is !== 'broken'",
    replace: 'return this.#context.clock.now() > 0',
    quick: true,
  },
]

const queue: readonly Mutant[] = [
  {
    name: 'a host that starts takes every ticket for free until it has a listing',
    file: 'actors/tracker/ticket-intake.ts',
    find: 'if (!this.#hasListing && current.blockedBy.length > 0)',
    replace: 'if (current.blockedBy.length < 0)',
  },
  {
    name: 'the queue knows no priorities',
    file: 'protocol/ticket-order.ts',
    find: 'return priority === 0 ? 4 : priority - 1',
    replace: 'return priority === 0 ? 4 : 4',
    quick: true,
  },
  {
    name: 'a ticket runs once only',
    file: 'core/tickets/run-progress.ts',
    find: 'return lastFinishedAt === undefined || lastFinishedAt < memory.since',
    replace: 'return lastFinishedAt === undefined',
  },
]

const publishing: readonly Mutant[] = [
  {
    name: 'finished work that could not be published is done again',
    file: RUN_MACHINE,
    find: "    { guard: 'waitsToPublish', target: 'queued', actions: PUBLISH_LATER },\n    { guard: 'meetsSetback'",
    replace:
      "    { guard: 'waitsToPublish', target: 'queued', actions: 'requeueUnbegun' },\n    { guard: 'meetsSetback'",
    quick: true,
  },
  {
    name: 'finished work is done again when its publisher is lost',
    file: RUN_MACHINE,
    find: 'return { ...waitToPublish(ended, context.run.result, { before, why, now: instantOf(event) }), lease: null }',
    replace:
      "const waits = waitToPublish(ended, context.run.result, { before, why, now: instantOf(event) })\n  return { ...waits, ...('outcome' in event ? {} : { publishing: null }), lease: null }",
  },
  {
    name: 'work is lost when its daemon dies while publishing',
    file: 'core/daemon/outcome.ts',
    find: "status: 'failed', error, ...unpublished(whole) }",
    replace: "status: 'failed', error }\n  void unpublished",
  },
  {
    name: 'a job that only publishes asks the agent',
    file: 'actors/runs/job-preparation.ts',
    find: 'return yes(publishJob(job.value, knowsAnyway ? publishing : {}))',
    replace: 'return yes(publishJob === undefined || knowsAnyway ? job.value : job.value)',
  },
]

const machinesForOneRun: readonly Mutant[] = [
  {
    name: 'a worker that ends does not wait for the host’s answer',
    file: 'actors/daemon/daemon.module.ts',
    find: 'await hostConnection.sendLastHeartbeat()',
    replace: 'void hostConnection.sendLastHeartbeat()',
    withController: true,
    quick: true,
  },
  {
    name: 'a worker that is about to end receives a dispatch',
    file: LEASE_MANAGER,
    find: 'if (member.context.capabilities?.ending === true)',
    replace: 'if (member.max < 0)',
    withController: true,
  },
  {
    name: 'follow-ups wait for a worker that took one run',
    file: 'actors/daemon/dispatch-admission.ts',
    find: '{ ...job, retentionHours: 0 }',
    replace: 'job',
    withController: true,
  },
  {
    name: 'runs that have a worker are wanted',
    file: 'actors/workers/worker-registry.ts',
    find: '      wanted,\n',
    replace: '      wanted: wanted + this.#leases.size,\n',
    withController: true,
  },
]

const SETTINGS_EFFECTS = 'actors/settings/module.ts'

const settings: readonly Mutant[] = [
  {
    name: 'what a run has learnt is dropped with the mapping of its repository',
    file: 'actors/runs/job-preparation.ts',
    find: "if (job === 'run' && place !== null) return yes(place.remote)",
    replace: 'void [job, place]',
  },
  {
    name: 'leases are granted while dispatching is paused',
    file: 'actors/workers/scheduler.ts',
    find: 'if (config().policy.paused) return\n',
    replace: 'void config().policy.paused\n',
  },
  {
    name: 'an edit of the configuration file is not read',
    file: 'actors/settings/settings.machine.ts',
    find: "'file changed': { actions: 'markFileOutdated' },",
    replace: '',
  },
  {
    name: 'an edit of the configuration file is read and not adopted',
    file: SETTINGS_EFFECTS,
    find: '    currentConfig.adopt(edit.value, text)\n',
    replace: '',
  },
  {
    name: 'power over the machine needs no confirmation',
    file: SETTINGS_EFFECTS,
    find: 'return confirmed.ok ? decided : confirmed',
    replace: 'return confirmed.ok || decided.ok ? decided : confirmed',
    quick: true,
  },
]

const SLEEP_COUNTING_CLOCK = 'bin/process/clock.ts'

const sleeps: readonly Mutant[] = [
  {
    name: 'a sleep of the machine does not count',
    file: SLEEP_COUNTING_CLOCK,
    find: 'if (away - sleptMs >= SLEPT_MS_MIN) sleptMs = away',
    replace: 'void away',
    quick: true,
  },
  {
    name: 'a timer that slept waits for its rest',
    file: SLEEP_COUNTING_CLOCK,
    find: 'base.after(Math.min(left, CHECK_EVERY_MS), again)',
    replace: 'base.after(left, again)',
  },
]

const oldPeers: readonly Mutant[] = [
  {
    name: 'a worker of the first version receives what came later',
    file: 'actors/workers/worker-registration.ts',
    find: 'connection.isFirstForm = isFirstForm(frame)',
    replace: 'connection.isFirstForm = isFirstForm(frame) && false',
    quick: true,
  },
  {
    name: 'a key that came later is not marked',
    file: 'protocol/frames.ts',
    find: '    clockDoubted: addedKey(Type.Boolean()),',
    replace: '    clockDoubted: Type.Optional(Type.Boolean()),',
  },
]

const damage: readonly Mutant[] = [
  {
    name: 'a worker with a damaged record does not start',
    file: 'actors/daemon/frame-outbox.ts',
    find: "      () => ((keyValues.get('outbox', leaseId) ?? {}) as { acked?: number }).acked ?? 0,",
    replace:
      "      ((found) => () => ((found ?? {}) as { acked?: number }).acked ?? 0)(keyValues.get('outbox', leaseId)),",
  },
  {
    name: 'damage on the disk of a worker is not named',
    file: 'actors/daemon/create-daemon.ts',
    find: 'if (!named.has(damage.id)) log',
    replace: 'if (named.has(damage.id)) log',
    quick: true,
  },
  {
    name: 'damaged reports read as if they had never been stored',
    file: 'actors/daemon/frame-outbox.ts',
    find: "(): StoredFrame => ({ as: 'gap', from: seq, damaged: true })",
    replace: '(): StoredFrame | undefined => undefined',
  },
  {
    name: 'damaged reports are named as dropped ones',
    file: 'core/lease/outbox.ts',
    find: 'this.#lostRanges.append({ from, to: seq, damaged: true })',
    replace: 'this.#lostRanges.append({ from, to: seq })',
  },
  {
    name: 'the number of the last report is deleted with it',
    file: 'core/lease/outbox.ts',
    find: 'this.#newestRow = this.#acked\n',
    replace: 'this.#changes.set(this.#acked, null)\n',
  },
  {
    name: 'the log of a run does not name damaged reports',
    file: 'actors/leases/frame-receiver.ts',
    find: 'if (damaged === true) progress',
    replace: 'if (damaged === true && from > to) progress',
  },
]

const hostDamage: readonly Mutant[] = [
  {
    name: 'the ticket of a damaged run runs again',
    file: 'actors/runs/run-manager.ts',
    find: 'const ends = [...readable, ...damaged,',
    replace: 'void damaged\n    const ends = [...readable,',
    withHostDamage: true,
    quick: true,
  },
  {
    name: 'the run of a damaged lease starts again at once',
    file: 'actors/leases/module.ts',
    find: 'clock.after(waitMs,',
    replace: 'clock.after(0 * waitMs,',
    withHostDamage: true,
  },
  {
    name: 'a damaged watermark ends its lease before the worker is there',
    file: LEASE_MANAGER,
    find: "if (after.value === 'held' && !restored) frameReceiver",
    replace: 'if (after.value !== null) frameReceiver',
    withHostDamage: true,
  },
  {
    name: 'costs of a damaged lease are acknowledged as unknown',
    file: 'actors/leases/lease-settlements.ts',
    find: 'if (ended === undefined && this.#isUnsure(leaseId)) return',
    replace: 'void this.#isUnsure',
    withHostDamage: true,
  },
  {
    name: 'costs of a damaged run are acknowledged',
    file: 'actors/runs/lease-shares.ts',
    find: 'if (run === null) return false',
    replace: 'if (run === null) return true',
    withHostDamage: true,
  },
  {
    name: 'a worker with a damaged record is told that it is unknown',
    file: 'actors/workers/worker-registration.ts',
    find: 'if (registry.get(workerId) === undefined && isUnsure) {',
    replace: 'if (registry.get(workerId) !== undefined && isUnsure) {',
    withHostDamage: true,
  },
  {
    name: 'damage on the disk of the host is named to nobody',
    file: 'actors/attention/module.ts',
    find: '.filter((damage) => !(isLoss(damage) && troubles',
    replace: '.filter((damage) => isLoss(damage) && !(troubles',
    withHostDamage: true,
  },
  {
    name: 'a damaged watermark is acknowledged as the beginning',
    file: 'actors/leases/frame-receiver.ts',
    find: 'return isAccepted === true && isUnreadable === false',
    replace: 'return isAccepted === true && isUnreadable !== undefined',
    withHostDamage: true,
  },
  {
    name: 'a damaged run has ended when the host started',
    file: 'actors/runs/run-manager.ts',
    find: 'return createdAt > this.#startedAt ? createdAt : this.#startedAt',
    replace: "return createdAt === '' ? createdAt : this.#startedAt",
    withHostDamage: true,
  },
  {
    name: 'new memories take the place of damaged ones',
    file: 'actors/runs/memories.ts',
    find: 'return damage === undefined ? yes(undefined)',
    replace: 'return damage !== null ? yes(undefined)',
    withHostDamage: true,
  },
]

export const mutants: readonly Mutant[] = [
  ...commit,
  ...frames,
  ...leases,
  ...runs,
  ...workers,
  ...reports,
  ...executions,
  ...sessions,
  ...followUps,
  ...tickets,
  ...explanations,
  ...owners,
  ...queue,
  ...publishing,
  ...machinesForOneRun,
  ...settings,
  ...sleeps,
  ...oldPeers,
  ...damage,
  ...hostDamage,
]
