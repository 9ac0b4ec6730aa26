/** The local worker machine: start, restart and drain of the host's own worker process. */
import { type LocalWorkerEvent, localWorkerMachine } from '../../../actors/workers/local-worker.machine.ts'
import type { Story } from '../trail.ts'
import { testTrails } from '../trail-tests.ts'

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

const stories: readonly Story<LocalWorkerEvent>[] = [
  {
    title: 'no process starts while none is wanted',
    input,
    events: [unwanted],
  },
  {
    title: 'a process that dies restarts after a pause that grows until one is steady',
    input,
    events: [wanted, started, died, pauseOver, started, died, pauseOver, started, steady, died],
  },
  {
    title: 'a failed start is retried',
    input,
    events: [wanted, failed, pauseOver, started],
  },
  {
    title: 'a process that the host refused as unknown enrolls again',
    input,
    events: [wanted, started, unauthorized, pauseOver, started],
  },
  {
    title: 'after an unrecoverable exit the pause is longer',
    input,
    events: [wanted, started, unrecoverable],
    onlyLastLine: true,
  },
  {
    title: 'a changed concurrency takes a new process once the old one has finished its runs',
    input,
    events: [wanted, started, wider, died, started],
  },
  {
    title:
      'another folder of the code host takes a new process, because a worker learns it at its start only',
    input,
    events: [wanted, started, elsewhere, died, started],
  },
  {
    title: 'the same configuration again changes nothing',
    input,
    events: [wanted, started, { ...wanted, settings: { ...settings } }],
    onlyLastLine: true,
  },
  {
    title: 'switched off, the process finishes its runs',
    input,
    events: [wanted, started, unwanted, died],
  },
  {
    title: 'switched off during the start, the process is drained as soon as it runs',
    input,
    events: [wanted, unwanted, started, died],
  },
  {
    title: 'switched off during the pause, the process is not restarted',
    input,
    events: [wanted, failed, unwanted],
    onlyLastLine: true,
  },
]

testTrails(localWorkerMachine, stories)
