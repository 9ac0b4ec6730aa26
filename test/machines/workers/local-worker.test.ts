/** The local worker machine: start, restart and drain of the host's own worker process. */
import { type LocalWorkerEvent, localWorkerMachine } from '../../../actors/workers/local-worker.machine.ts'
import { LAST_LINE, trailTests } from '../trail-tests.ts'

const settings = { concurrency: 2, codeHostFolder: null, codeHostOrigin: null }
const wanted: LocalWorkerEvent = { type: 'wanted', settings }
const wider: LocalWorkerEvent = { type: 'wanted', settings: { ...settings, concurrency: 5 } }
const elsewhere: LocalWorkerEvent = { type: 'wanted', settings: { ...settings, codeHostFolder: '/srv/git' } }
const unwanted: LocalWorkerEvent = { type: 'unwanted' }
const started: LocalWorkerEvent = { type: 'started' }
const failed: LocalWorkerEvent = { type: 'not started' }
const died: LocalWorkerEvent = { type: 'ended', ending: 'died' }
const unauthorized: LocalWorkerEvent = { type: 'ended', ending: 'unauthorized' }
const unrecoverable: LocalWorkerEvent = { type: 'ended', ending: 'unrecoverable' }
const steady: LocalWorkerEvent = { type: 'steady' }
const pauseOver: LocalWorkerEvent = { type: 'pause over' }

const input = undefined

trailTests<LocalWorkerEvent>(localWorkerMachine, input, [
  ['no process starts while none is wanted', [unwanted]],
  [
    'a process that dies restarts after a pause that grows until one is steady',
    [wanted, started, died, pauseOver, started, died, pauseOver, started, steady, died],
  ],
  ['a failed start is retried', [wanted, failed, pauseOver, started]],
  [
    'a process that the host refused as unknown enrolls again',
    [wanted, started, unauthorized, pauseOver, started],
  ],
  ['after an unrecoverable exit the pause is longer', [wanted, started, unrecoverable], LAST_LINE],
  [
    'a changed concurrency takes a new process once the old one has finished its runs',
    [wanted, started, wider, died, started],
  ],
  [
    'another folder of the code host takes a new process, because a worker learns it at its start only',
    [wanted, started, elsewhere, died, started],
  ],
  [
    'the same configuration again changes nothing',
    [wanted, started, { ...wanted, settings: { ...settings } }],
    LAST_LINE,
  ],
  ['switched off, the process finishes its runs', [wanted, started, unwanted, died]],
  [
    'switched off during the start, the process is drained as soon as it runs',
    [wanted, unwanted, started, died],
  ],
  ['switched off during the pause, the process is not restarted', [wanted, failed, unwanted], LAST_LINE],
])
