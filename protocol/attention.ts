/** The list of what needs a person, for commands, pages and notifications. An item vanishes with its cause. */
import Type, { type Static } from 'typebox'
import { ATTENTION_ID_CHARS_MAX, ATTENTION_ITEM_RUNS_MAX, ATTENTION_ITEMS_MAX } from './limits.ts'
import {
  boundedList,
  Count,
  ForeignId,
  Id,
  Instant,
  Link,
  Name,
  nonEmptyText,
  record,
  stringEnum,
  Text,
} from './schema-helpers.ts'

export const ATTENTION_KINDS = [
  'failed',
  'limit',
  'login',
  'review',
  'conflict',
  'budget',
  'worker-away',
  'tracker',
  'secret',
  'codehost',
  'disk',
  'damage',
] as const
export type AttentionKind = (typeof ATTENTION_KINDS)[number]

export const AttentionPull = record('AttentionPull', {
  repo: Type.Optional(nonEmptyText(256, 'The key of the repository mapping, while there is one.')),
  remote: Name,
  number: Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }),
  url: Link,
})
export type AttentionPull = Static<typeof AttentionPull>

export const AttentionItem = record('AttentionItem', {
  id: nonEmptyText(ATTENTION_ID_CHARS_MAX, 'The same trouble keeps its id.'),
  kind: stringEnum(ATTENTION_KINDS),
  message: Text,
  cure: Type.Optional(Text),
  runId: Type.Optional(Id),
  runs: Type.Optional(boundedList(Id, ATTENTION_ITEM_RUNS_MAX)),
  ticketId: Type.Optional(ForeignId),
  pull: Type.Optional(AttentionPull),
  mayAcknowledge: Type.Optional(
    Type.Boolean({ description: 'A loss that stays: the item vanishes when a person acknowledges it.' }),
  ),
  since: Instant,
})
export type AttentionItem = Static<typeof AttentionItem>

export const AcknowledgeRequest = record('AcknowledgeRequest', {
  id: nonEmptyText(ATTENTION_ID_CHARS_MAX, 'The id of an item with mayAcknowledge.'),
})
export type AcknowledgeRequest = Static<typeof AcknowledgeRequest>

export const AttentionResponse = record('AttentionResponse', {
  items: boundedList(AttentionItem, ATTENTION_ITEMS_MAX),
  more: Type.Optional(Count),
})
export type AttentionResponse = Static<typeof AttentionResponse>
