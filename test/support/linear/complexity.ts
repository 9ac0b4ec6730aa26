/**
 * Computes the complexity of a query: 0.1 points per scalar, 1 per object. A connection multiplies its content by the
 * requested page size. The sum is rounded up.
 */
import {
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLNamedOutputType,
  type GraphQLSchema,
  getArgumentValues,
  getNamedType,
  isCompositeType,
  isInterfaceType,
  isObjectType,
  Kind,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql'
import { PAGE_DEFAULT } from './connection.ts'

export const QUERY_POINTS_MAX = 10_000
const SCALAR_POINTS = 0.1
const OBJECT_POINTS = 1

interface ComplexityContext {
  readonly schema: GraphQLSchema
  readonly fragments: ReadonlyMap<string, FragmentDefinitionNode>
  readonly variables: Readonly<Record<string, unknown>>
}

/** Expects a valid query, with defaults applied to its variables. */
export function pointsOf(reading: ComplexityContext, operation: OperationDefinitionNode): number {
  const root = reading.schema.getRootType(operation.operation)
  return root ? Math.ceil(rounded(inside(reading, root, operation.selectionSet))) : 0
}

function inside(reading: ComplexityContext, type: GraphQLNamedOutputType, set: SelectionSetNode): number {
  return set.selections.reduce((sum, selection) => {
    if (selection.kind === Kind.FIELD) return sum + ofField(reading, type, selection)
    const fragment =
      selection.kind === Kind.FRAGMENT_SPREAD ? reading.fragments.get(selection.name.value) : selection
    if (fragment === undefined) return sum
    const named = fragment.typeCondition && reading.schema.getType(fragment.typeCondition.name.value)
    return sum + inside(reading, isCompositeType(named) ? named : type, fragment.selectionSet)
  }, 0)
}

function ofField(reading: ComplexityContext, parent: GraphQLNamedOutputType, node: FieldNode): number {
  const field =
    isObjectType(parent) || isInterfaceType(parent) ? parent.getFields()[node.name.value] : undefined
  if (field === undefined || node.selectionSet === undefined) return SCALAR_POINTS
  const type = getNamedType(field.type)
  const children = inside(reading, type, node.selectionSet)
  if (!type.name.endsWith('Connection')) return OBJECT_POINTS + children
  const { first, last } = getArgumentValues(field, node, reading.variables)
  return children * Math.max(0, Number(first ?? last ?? PAGE_DEFAULT))
}

/** Sums of tenths have rounding errors. */
function rounded(points: number): number {
  return Math.round(points * 1000) / 1000
}
