import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import type { Plugin } from 'vite'
import { defineConfig } from 'vitest/config'

// A development server answers the pages, and passes API calls to a Timeball that runs beside it.
const server = process.env.TIMEBALL_URL ?? 'http://127.0.0.1:1300'
const token = process.env.TIMEBALL_TOKEN

/** The server writes its base path and a nonce into index.html. The development server has neither. */
const placeholders: Plugin = {
  name: 'timeball-placeholders',
  apply: 'serve',
  transformIndexHtml: html => html.replaceAll('__TIMEBALL_BASE__', '/').replaceAll('__TIMEBALL_NONCE__', ''),
}

/** Pages are all called page.tsx: their chunks get the names of their folders. */
function nameOf(chunk: { name: string; facadeModuleId?: string | null }): string {
  return /\/pages\/([\w-]+)\/page\.tsx$/.exec(chunk.facadeModuleId ?? '')?.[1] ?? chunk.name
}

type Modules = {
  getModuleInfo: (id: string) => { importedIds: readonly string[]; dynamicallyImportedIds: readonly string[] } | null
}

const entry = fileURLToPath(new URL('./src/main.tsx', import.meta.url))
const sources = fileURLToPath(new URL('./src/', import.meta.url))
const firstFile = new Set<string>()

/** What a module needs at once, with itself. */
function reach(start: string, modules: Modules): Set<string> {
  const found = new Set<string>()
  const open = [start]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (found.has(next)) continue
    found.add(next)
    open.push(...(modules.getModuleInfo(next)?.importedIds ?? []))
  }
  return found
}

/** The modules that are imported when they are needed: pages, and what pages load when they draw. */
function laterStarts(first: Set<string>, modules: Modules): Set<string> {
  const starts = new Set<string>()
  const open = [...first]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const start of modules.getModuleInfo(next)?.dynamicallyImportedIds ?? []) {
      if (starts.has(start)) continue
      starts.add(start)
      open.push(...reach(start, modules))
    }
  }
  return starts
}

/**
 * Whether a module is part of the first file: the entry needs it at once, or it is a source that several pages share.
 * A page that is loaded when it is opened is then one more request, however many components it shares with others.
 * Libraries that the entry does not need (graphs, charts) are loaded by the components that draw with them.
 */
function isInFirstFile(id: string, modules: Modules): boolean {
  if (firstFile.size === 0) {
    const first = reach(entry, modules)
    for (const module of first) firstFile.add(module)
    const seen = new Set<string>()
    for (const start of laterStarts(first, modules)) {
      for (const module of reach(start, modules)) {
        if (seen.has(module) && module.startsWith(sources)) firstFile.add(module)
        seen.add(module)
      }
    }
  }
  return firstFile.has(id)
}

/**
 * The bundler keeps its helper functions (600 bytes) in a file of their own, which every page would have to wait for.
 * They keep no state, so each file that uses them gets its own copy, and the file is removed.
 */
const inlineRuntime: Plugin = {
  name: 'timeball-inline-runtime',
  apply: 'build',
  writeBundle: {
    order: 'post',
    sequential: true,
    handler({ dir = '' }, bundle) {
      const runtime = Object.keys(bundle).find(file => file.includes('/rolldown-runtime-'))
      if (runtime === undefined || !existsSync(join(dir, 'index.html'))) return
      const [helpers, exported] = splitExports(readFileSync(join(dir, runtime), 'utf8'))
      const imported = new RegExp(`import\\{([^}]*)\\}from"\\./${basename(runtime)}";`)
      for (const file of Object.keys(bundle).filter(name => name.endsWith('.js') && name !== runtime)) {
        rewrite(join(dir, file), code => {
          const inlined = code.replace(imported, (_, names: string) => {
            return `const{${names.replaceAll(' as ', ':')}}=(()=>{${helpers};return{${exported}}})();`
          })
          return withoutPreload(inlined, `"./${basename(runtime)}"`)
        })
        if (readFileSync(join(dir, file), 'utf8').includes(basename(runtime))) {
          this.error(`${file} does not import ${runtime} as expected`)
        }
      }
      rewrite(join(dir, 'index.html'), html => html.replace(/ *<script[^>]*rolldown-runtime[^>]*><\/script>\n/, ''))
      rewrite(join(dir, 'manifest.json'), text => withoutFile(text, `_${basename(runtime)}`))
      rmSync(join(dir, runtime))
    },
  },
}

function rewrite(file: string, change: (text: string) => string): void {
  const before = readFileSync(file, 'utf8')
  const after = change(before)
  if (after !== before) writeFileSync(file, after)
}

/** The entry loads what a page needs ahead of the page: by the numbers of files in one list. */
function withoutPreload(code: string, quoted: string): string {
  const list = /m\.f=\[([^\]]*)\]/.exec(code)
  const files = (list?.[1] ?? '').split(',')
  const removed = files.indexOf(quoted)
  if (list === null || removed < 0) return code
  const shorter = files.filter(file => file !== quoted)
  const numbers = (text: string) =>
    text
      .split(',')
      .map(Number)
      .filter(number => number !== removed)
      .map(number => (number > removed ? number - 1 : number))
  return code
    .replace(list[0], `m.f=[${shorter.join(',')}]`)
    .replaceAll(
      /__vite__mapDeps\(\[([\d,]+)\]\)/g,
      (_, used: string) => `__vite__mapDeps([${numbers(used).join(',')}])`,
    )
}

function withoutFile(manifest: string, removed: string): string {
  const files = JSON.parse(manifest) as Record<string, { imports?: string[] }>
  delete files[removed]
  for (const file of Object.values(files)) {
    if (file.imports !== undefined) file.imports = file.imports.filter(name => name !== removed)
  }
  return JSON.stringify(files, null, 2)
}

/** `…;export{c as n,o as t};` as the code before it, and `n:c,t:o`. */
function splitExports(code: string): [string, string] {
  const match = /^([\s\S]*?);?export\{([^}]*)\};?\s*$/.exec(code)
  if (match === null) throw new Error('the runtime of the bundler has another form')
  const names = (match[2] ?? '').split(',').map(item => item.trim().split(' as ').reverse().join(':'))
  return [match[1] ?? '', names.join(',')]
}

export default defineConfig({
  // Relative addresses: the UI works below any path prefix. The server writes <base href> into index.html.
  base: './',
  plugins: [react(), tailwindcss(), placeholders, inlineRuntime],
  resolve: { alias: { '@': fileURLToPath(new URL('./src', import.meta.url)) } },
  build: {
    outDir: process.env.TIMEBALL_WEB_OUT ?? '../src/timeball/web/static',
    emptyOutDir: true,
    manifest: 'manifest.json',
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 900,
    rolldownOptions: {
      output: {
        chunkFileNames: chunk => `assets/${nameOf(chunk)}-[hash].js`,
        codeSplitting: {
          groups: [{ debugName: 'first file', name: (id, modules) => (isInFirstFile(id, modules) ? 'app' : null) }],
        },
      },
    },
  },
  worker: { format: 'es' },
  server: {
    proxy: {
      '^/(v1|openapi.json|docs|livez|readyz)': {
        target: server,
        changeOrigin: true,
        headers: token === undefined ? {} : { Authorization: `Bearer ${token}` },
      },
    },
  },
  test: { environment: 'node', include: ['src/**/*.test.ts'] },
})
