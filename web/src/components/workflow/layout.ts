import { Graph, layout } from '@dagrejs/dagre'

/** Computes the positions of the tasks in the graph of a workflow, and the arrows between them. */

export type LayoutTask = { name: string; needs: readonly string[] }
export type Placed = { name: string; x: number; y: number }
export type Arrow = { from: string; to: string }
export type Direction = 'right' | 'down'

export const NODE_WIDTH = 208
export const NODE_HEIGHT = 52
const GAP_BETWEEN = 22
const GAP_RANKS = { right: 44, down: 34 }

/**
 * Maximum number of tasks for which rows are ordered to avoid crossings. That takes too long for more tasks; they are
 * placed in a grid by rank.
 */
export const MAX_ORDERED_TASKS = 150

export function arrowsOf(tasks: readonly LayoutTask[]): Arrow[] {
  const known = new Set(tasks.map(task => task.name))
  return tasks.flatMap(task =>
    [...new Set(task.needs)].filter(name => known.has(name)).map(from => ({ from, to: task.name })),
  )
}

/**
 * Returns the rank of each task: the number of tasks before it on the longest path to it. In a cycle, which the API
 * rejects, the need that closes the cycle is ignored.
 */
export function ranksOf(tasks: readonly LayoutTask[]): Map<string, number> {
  const byName = new Map(tasks.map(task => [task.name, task]))
  const ranks = new Map<string, number>()
  const entered = new Set<string>()
  for (const start of tasks) {
    // This loop has its own stack, because recursion fails for a chain of ten thousand tasks.
    const stack = [start.name]
    while (stack.length > 0) {
      const name = stack[stack.length - 1] ?? ''
      const needs = (byName.get(name)?.needs ?? []).filter(need => byName.has(need))
      if (!entered.has(name)) {
        entered.add(name)
        stack.push(...needs.filter(need => !entered.has(need)))
        continue
      }
      stack.pop()
      if (!ranks.has(name)) ranks.set(name, Math.max(0, ...needs.map(need => (ranks.get(need) ?? -1) + 1)))
    }
  }
  return ranks
}

export function placeTasks(tasks: readonly LayoutTask[], direction: Direction): Placed[] {
  return tasks.length <= MAX_ORDERED_TASKS ? placeOrdered(tasks, direction) : placeInRanks(tasks, direction)
}

function placeOrdered(tasks: readonly LayoutTask[], direction: Direction): Placed[] {
  const graph = new Graph()
  graph.setGraph({ rankdir: direction === 'right' ? 'LR' : 'TB', nodesep: GAP_BETWEEN, ranksep: GAP_RANKS[direction] })
  graph.setDefaultEdgeLabel(() => ({}))
  for (const task of tasks) graph.setNode(task.name, { width: NODE_WIDTH, height: NODE_HEIGHT })
  for (const arrow of arrowsOf(tasks)) graph.setEdge(arrow.from, arrow.to)
  layout(graph)
  return tasks.map(task => {
    const node = graph.node(task.name) as { x: number; y: number }
    return { name: task.name, x: node.x - NODE_WIDTH / 2, y: node.y - NODE_HEIGHT / 2 }
  })
}

function placeInRanks(tasks: readonly LayoutTask[], direction: Direction): Placed[] {
  const ranks = ranksOf(tasks)
  const filled = new Map<number, number>()
  return tasks.map(task => {
    const rank = ranks.get(task.name) ?? 0
    const row = filled.get(rank) ?? 0
    filled.set(rank, row + 1)
    return direction === 'right'
      ? { name: task.name, x: rank * (NODE_WIDTH + GAP_RANKS.right), y: row * (NODE_HEIGHT + GAP_BETWEEN) }
      : { name: task.name, x: row * (NODE_WIDTH + GAP_BETWEEN), y: rank * (NODE_HEIGHT + GAP_RANKS.down) }
  })
}

export type Picture = { places: Placed[]; direction: Direction; zoom: number; height: number }

const MAX_ZOOM = 1
const MARGIN = 28

/** Returns the layout in the direction in which the boxes are larger, with the height that it needs. */
export function fitTasks(tasks: readonly LayoutTask[], width: number, maxHeight: number): Picture {
  const right = inDirection(tasks, 'right', width, maxHeight)
  if (right.zoom >= 0.8) return right
  const down = inDirection(tasks, 'down', width, maxHeight)
  return down.zoom > right.zoom ? down : right
}

function inDirection(tasks: readonly LayoutTask[], direction: Direction, width: number, maxHeight: number): Picture {
  const places = placeTasks(tasks, direction)
  const graphWidth = Math.max(...places.map(place => place.x), 0) + NODE_WIDTH
  const graphHeight = Math.max(...places.map(place => place.y), 0) + NODE_HEIGHT
  const zoom = Math.min(MAX_ZOOM, (width - 2 * MARGIN) / graphWidth, (maxHeight - 2 * MARGIN) / graphHeight)
  return { places, direction, zoom, height: Math.ceil(graphHeight * zoom + 2 * MARGIN) }
}
