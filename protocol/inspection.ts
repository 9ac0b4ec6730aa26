/**
 * The frames of the inspection socket (`/ws/inspect`), by which developers watch the actors of a host, and the lines of
 * a story, which is such a stream in a file.
 *
 * A frame carries names, states, ids, numbers and instants; every other text has been replaced by its length.
 */
import Type, { type Static } from 'typebox'
import {
  INSPECT_ACTOR_FRAME_MAX,
  INSPECT_FOLLOWED_MAX,
  INSPECT_GUARDS_MAX,
  INSPECT_RECENT_MAX,
  INSPECT_RECORD_FRAME_MAX,
  INSPECT_TEXT_CHARS_MAX,
} from './limits.ts'
import { boundedList, Count, nonEmptyText, record, stringEnum, text } from './schema-helpers.ts'

const Short = text(INSPECT_TEXT_CHARS_MAX)
/** Wall milliseconds. */
const At = Type.Number({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })

/** `kind/key`; for an actor of a worker `worker-id/kind/key`. */
export const ActorId = nonEmptyText(INSPECT_TEXT_CHARS_MAX)

/** Values by the names of their fields. A text that may not be shown stands as `(text, 42 characters)`. */
export const ShownFields = Type.Unsafe<Readonly<Record<string, string | number | boolean | null>>>(
  Type.Record(Short, Type.Union([Short, Type.Number(), Type.Boolean(), Type.Null()])),
)
export type ShownFields = Static<typeof ShownFields>

export const InspectedActor = record('InspectedActor', {
  id: ActorId,
  kind: Short,
  key: Short,
  /** The path of the active state, its parts joined by dots. */
  state: Short,
  /** When the actor entered this state; absent when that was before anybody watched. */
  since: Type.Optional(At),
  /** The ids of what the actor belongs to. */
  run: Type.Optional(Short),
  ticket: Type.Optional(Short),
  lease: Type.Optional(Short),
  worker: Type.Optional(Short),
  /** The worker in whose process the actor lives; absent for the host's own. */
  process: Type.Optional(Short),
})
export type InspectedActor = Static<typeof InspectedActor>

/** The sender of an event or the cause of an effect: another actor, or something from outside. */
export const InspectionSource = record('InspectionSource', {
  is: stringEnum(['actor', 'frame', 'request', 'deadline', 'effect', 'restore', 'module']),
  /** The actor's id, the frame's type, the request's method and route, the effect's type. */
  name: Short,
})
export type InspectionSource = Static<typeof InspectionSource>

/** A condition of a transition, as the machine found it for an event. */
export const GuardResult = record('GuardResult', { name: Short, holds: Type.Boolean() })
export type GuardResult = Static<typeof GuardResult>

export const InspectionRecord = record('InspectionRecord', {
  /** Numbers grow by one within a process, so that gaps show. */
  n: Count,
  at: At,
  actor: ActorId,
  /**
   * `created`, `restored`, `ended`: the actor's life. `event`: an event was delivered, whether or not the state has
   * changed. `effect`: recorded by a transition, runs after its commit. `deadline`: set, moved or cancelled. `crash`: a
   * transition threw. `restarted`: the actor goes on from its last good state.
   */
  is: stringEnum([
    'created',
    'restored',
    'event',
    'effect',
    'deadline',
    'crash',
    'restarted',
    'ended',
  ] as const),
  /** The type of the event or of the effect, the name of the deadline; empty for the others. */
  name: Short,
  from: Type.Optional(InspectionSource),
  /** The number of the record in which this one was caused. */
  cause: Type.Optional(Count),
  /** The state before and after; absent where it cannot change. */
  before: Type.Optional(Short),
  after: Type.Optional(Short),
  /** The guards that the machine asked about the event, in its order; the last one may hold. */
  guards: Type.Optional(boundedList(GuardResult, INSPECT_GUARDS_MAX)),
  /** No transition of the state took the event. */
  ignored: Type.Optional(Type.Boolean()),
  /** When a deadline is due; absent when it was cancelled. */
  due: Type.Optional(At),
  /** The fields of the event or effect that may be shown. */
  fields: Type.Optional(ShownFields),
  /** The fields of the actor's context that have changed, and may be shown; null: gone. */
  context: Type.Optional(ShownFields),
})
export type InspectionRecord = Static<typeof InspectionRecord>

/** An actor at an instant. */
export const ActorDetail = record('ActorDetail', {
  actor: InspectedActor,
  context: ShownFields,
  /** How many fields the context has that are not shown. */
  hidden: Count,
  /** Instants by the names of the pending deadlines. */
  deadlines: Type.Unsafe<Readonly<Record<string, number>>>(Type.Record(Short, At)),
})
export type ActorDetail = Static<typeof ActorDetail>

// ---- from the host ---------------------------------------------------------------------------------------------

export const InspectFrame = Type.Union(
  [
    record('InspectHello', {
      type: Type.Literal('inspect-hello'),
      version: Short,
      now: At,
      /** How many actors the following `inspect-actors` frames list until one is `complete`. */
      actors: Count,
    }),
    /** Actors that are new or have another state; frames are collected for a moment, so only the last state counts. */
    record('InspectActors', {
      type: Type.Literal('inspect-actors'),
      changed: boundedList(InspectedActor, INSPECT_ACTOR_FRAME_MAX),
      gone: boundedList(ActorId, INSPECT_ACTOR_FRAME_MAX),
      complete: Type.Optional(Type.Boolean()),
    }),
    /** News of the followed actors. */
    record('InspectRecords', {
      type: Type.Literal('inspect-records'),
      records: boundedList(InspectionRecord, INSPECT_RECORD_FRAME_MAX),
      /** How many records before these were left out because the viewer is too slow. */
      lost: Type.Optional(Count),
    }),
    /** Answers `inspect-follow` once for each actor that exists and was not followed before. */
    record('InspectDetail', {
      type: Type.Literal('inspect-detail'),
      detail: ActorDetail,
      /** The last records of this actor, oldest first, as far back as the host remembers. */
      recent: boundedList(InspectionRecord, INSPECT_RECENT_MAX),
    }),
  ],
  { title: 'InspectFrame' },
)
export type InspectFrame = Static<typeof InspectFrame>

// ---- to the host -----------------------------------------------------------------------------------------------

/** Replaces the list of actors whose records are sent. */
export const InspectRequest = record('InspectRequest', {
  type: Type.Literal('inspect-follow'),
  actors: boundedList(ActorId, INSPECT_FOLLOWED_MAX),
  /** The records of every actor. Details are sent only for the listed ones, unless `details` asks for all. */
  all: Type.Optional(Type.Boolean()),
  /** With `all`: the details of every actor too, without earlier records, as a story needs them. */
  details: Type.Optional(Type.Boolean()),
})
export type InspectRequest = Static<typeof InspectRequest>

// ---- a story: one line each ------------------------------------------------------------------------------------

export const StoryHead = record('StoryHead', {
  story: Type.Literal(1),
  at: At,
  version: Short,
  /** The recorded system: `host`, or `simulation` with its seed in the title. */
  source: stringEnum(['host', 'simulation'] as const),
  title: Short,
})
export type StoryHead = Static<typeof StoryHead>

/** The last line; a story without it was cut off. */
export const StoryEnd = record('StoryEnd', { end: At, records: Count, lost: Count })
export type StoryEnd = Static<typeof StoryEnd>

/** The head, then one line for each actor as it was at the beginning, then the records in their order, then the end. */
export const StoryLine = Type.Union([StoryHead, ActorDetail, InspectionRecord, StoryEnd], {
  title: 'StoryLine',
})
export type StoryLine = Static<typeof StoryLine>
