# SPDX-License-Identifier: BSD-3-Clause
"""The libraries that `compare` runs, with the settings known to be good for each, and how their ranks are started."""
import os
import shlex
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTS = os.path.join(HERE, os.pardir, "hosts")
AGENT = os.path.join(HERE, "agent")
PACKAGES = {"openmpi": ["openmpi-bin", "libopenmpi-dev"], "mpich": ["mpich", "libmpich-dev"],
            "gloo": ["libgloo-dev", "g++"]}
PEERS = list(PACKAGES)


class Place:
    """Where ranks run: on this host, or on hosts that are network namespaces."""

    def __init__(self, options, work):
        self.kind, self.ranks, self.bin, self.work = options.kind, options.ranks, options.bin, work
        self.nhosts, self.per_host, self.memory = options.hosts, options.per_host, options.memory
        self.namespaces = ""  # their name; none: the machine's own network
        self.fits = options.ranks <= len(os.sched_getaffinity(0))

    def inside(self, host=0):
        return [HOSTS, "in", str(host), "--name", self.namespaces, "--"] if self.namespaces else []

    def environment(self):
        return {"COMPARE_HOSTS": self.namespaces} if self.namespaces else {}

    def address(self, host):
        return f"10.77.0.{host + 1}" if self.kind == "net" else "127.0.0.1"

    def start(self, program, *options):
        """One process a rank, without an MPI: ranks of Tutti, or of what wants RANK. Options are those of tutti run."""
        if self.kind == "net":
            return [HOSTS, "run", "--name", self.namespaces, "-n", str(self.ranks), "--per-host", str(self.per_host),
                    "--", program]
        run = self.inside() + [os.path.join(self.bin, "tutti"), "run", "--no-prefix", "-n", str(self.ranks)]
        return run + [*options, "--", program]


class Setting:
    def __init__(self, name, command, way=None, **environment):
        self.name, self.command, self.environment = name, command, environment
        self.way = way  # how data must go: shm, tcp, net or None, any
        self.peer = name.split(".")[0]

    def is_stock(self):
        return self.name.endswith(".stock")


def missing(peer):
    """What is not there, as one phrase, or nothing."""
    if peer == "gloo":
        found = shutil.which("g++") and os.path.exists("/usr/include/gloo/allreduce.h")
    else:
        found = shutil.which(f"mpicc.{peer}") and shutil.which(f"mpirun.{peer}") and subprocess.run(
            [f"mpicc.{peer}", "-E", "-include", "mpi.h", "-x", "c", os.devnull], capture_output=True).returncode == 0
    return "" if found else " ".join(PACKAGES[peer])


def install(peer):
    subprocess.run(["apt-get", "install", "-y", "-q", "--no-install-recommends"] + PACKAGES[peer], check=False,
                   env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"), stdout=subprocess.DEVNULL)


def build(peer, work):
    """The loop program for that peer; what the compiler said if there is none."""
    loop, program = os.path.join(HERE, "loop.c"), os.path.join(work, f"loop_{peer}")
    if peer == "gloo":
        whole = os.path.join(work, "loop.o")
        commands = [["gcc", "-O2", "-c", loop, "-o", whole],
                    ["g++", "-std=c++17", "-O2", os.path.join(HERE, "loop_gloo.cc"), whole, "-o", program, "-lgloo",
                     "-pthread"]]
    else:
        commands = [[f"mpicc.{peer}", "-O2", loop, os.path.join(HERE, "loop_mpi.c"), "-o", program]]
    for command in commands:
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            return "", (made.stderr.strip() or "no reason given").splitlines()[-1]
    return program, ""


# ---- settings ----

def tutti(place):
    way = {} if place.kind == "net" else {"TUTTI_TRANSPORTS": place.kind}
    return [Setting("tutti", place.start(os.path.join(place.bin, "loop_tutti")), place.kind, **way)]


def mca(**values):
    return [word for name, value in values.items() for word in ("--mca", name, str(value))]


def tuned(algorithm, segment=0):
    chosen = mca(coll_tuned_use_dynamic_rules=1, coll_tuned_allreduce_algorithm=algorithm)
    return chosen + (mca(coll_tuned_allreduce_algorithm_segmentsize=segment) if segment else [])


OPENMPI_ALGORITHMS = {"": [], ".linear": tuned(1), ".reduce_bcast": tuned(2), ".recursive_doubling": tuned(3),
                      ".ring": tuned(4), ".ring_64K": tuned(5, 65536), ".ring_256K": tuned(5, 262144),
                      ".ring_1M": tuned(5, 1048576), ".rabenseifner": tuned(6)}
BOUND = ["--map-by", "core", "--bind-to", "core:overload-allowed"]
SHORT = ("", ".recursive_doubling", ".ring", ".rabenseifner")


def openmpi_ways(place):
    """Name of a way for the data -> arguments, names of the algorithms to try."""
    ucx = mca(pml="ucx", pml_ucx_tls="any", pml_ucx_devices="any")
    if place.kind == "shm":
        cma = mca(pml="ob1", btl="vader,self")
        no_cma = cma + mca(btl_vader_single_copy_mechanism="none")
        frags = no_cma + mca(btl_vader_max_send_size=131072, btl_vader_eager_limit=32768)
        ways = {"vader_cma": (cma, OPENMPI_ALGORITHMS), "vader_copy": (no_cma, OPENMPI_ALGORITHMS),
                "vader_copy_128K": (frags, SHORT), "ucx": (ucx + ["-x", "UCX_TLS=posix,cma,self"], SHORT),
                "ucx_copy": (ucx + ["-x", "UCX_TLS=posix,self"], SHORT)}
        if not place.fits:  # it binds no ranks then, unless it is told to
            ways |= {"vader_cma_bound": (cma + BOUND, SHORT), "vader_copy_bound": (no_cma + BOUND, SHORT)}
        return ways
    device = "lo" if place.kind == "tcp" else "eth0"
    near = "tcp,self" if place.kind == "tcp" or place.per_host == 1 else "tcp,vader,self"
    plain = mca(pml="ob1", btl=near, btl_tcp_if_include=device)
    ways = {"tcp": (plain, OPENMPI_ALGORITHMS), "tcp_eager_256K": (plain + mca(btl_tcp_eager_limit=262144), SHORT),
            "tcp_2_links": (plain + mca(btl_tcp_links=2), SHORT)}
    if not place.fits and place.kind == "tcp":
        ways["tcp_bound"] = (plain + BOUND, SHORT)
    if near == "tcp,self":
        ways["ucx"] = (ucx + ["-x", "UCX_TLS=tcp,self", "-x", f"UCX_NET_DEVICES={device}"], SHORT)
    return ways


def openmpi(place, program):
    run = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", str(place.ranks)]
    run += [] if place.fits else mca(mpi_yield_when_idle=1)
    if place.kind == "net":  # the launcher of each host would bind its ranks to the first cores of all
        places = ",".join(f"{place.address(host)}:{place.per_host}" for host in range(place.nhosts))
        run = [AGENT, place.address(0)] + run + ["--bind-to", "none", "-H", places]
        run += mca(plm_rsh_agent=AGENT, plm_rsh_no_tree_spawn=1, oob_tcp_if_include="eth0")
    else:
        run = place.inside() + run
    ways = openmpi_ways(place)
    plain = [] if place.kind == "shm" else next(iter(ways.values()))[0]
    settings = [Setting("openmpi.stock", run + plain + [program], place.kind)]
    for way, (arguments, algorithms) in ways.items():
        settings += [Setting(f"openmpi.{way}{name}", run + arguments + OPENMPI_ALGORITHMS[name] + [program], place.kind)
                     for name in algorithms if name or arguments != plain]
    return settings


def genv(**values):
    return [word for name, value in values.items() for word in ("-genv", name, value)]


def mpich(place, program):
    """It never yields: with more ranks than cores it does not finish in reasonable time."""
    if not place.fits:
        return []
    run = ["mpirun.mpich", "-n", str(place.ranks)]
    if place.kind == "net":
        hosts = ",".join(place.address(host) for host in range(place.nhosts))
        run = [AGENT, place.address(0)] + run + ["-launcher", "ssh", "-launcher-exec", AGENT, "-hosts", hosts,
                                                 "-ppn", str(place.per_host)]
    else:
        run = place.inside() + run + ["-bind-to", "core"]
    if place.kind == "shm":
        ways = {"": [], "posix": genv(UCX_TLS="posix,self"), "cma": genv(UCX_TLS="posix,cma,self")}
    elif place.kind == "tcp":
        ways = {"": genv(UCX_TLS="tcp,self", UCX_NET_DEVICES="lo")}
    else:
        ways = {"": genv(UCX_NET_DEVICES="eth0") if place.per_host > 1 else genv(UCX_TLS="tcp,self")}
    intra = "MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"
    algorithms = {"": [], "recursive_doubling": genv(**{intra: "recursive_doubling"}),
                  "reduce_scatter_allgather": genv(**{intra: "reduce_scatter_allgather"}),
                  "no_smp": genv(MPIR_CVAR_ENABLE_SMP_ALLREDUCE="0")}
    if place.kind == "shm":
        algorithms["release_gather"] = genv(MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM="release_gather")
    settings = []
    for way, arguments in ways.items():
        for name, chosen in algorithms.items():
            words = ".".join(word for word in (way, name) if word) or "stock"
            settings.append(Setting(f"mpich.{words}", run + arguments + chosen + [program], place.kind))
    return settings


def gloo(place, program):
    """Over TCP wherever it runs: it has nothing else. Not bound to cores: each rank has a thread for its sockets."""
    names = {"stock": "default", "bcube": "bcube", "old_ring": "old_ring", "old_ring_chunked": "old_ring_chunked",
             "old_halving_doubling": "old_halving_doubling"}
    if place.ranks & (place.ranks - 1) == 0:  # else its results are wrong
        names["old_bcube"] = "old_bcube"
    where = {"LOOP_INTERFACE": "eth0"} if place.kind == "net" else {"LOOP_ADDRESS": place.address(0)}
    return [Setting(f"gloo.{name}", place.start(program, "--no-bind"), None if place.kind == "shm" else place.kind,
                    LOOP_ALGORITHM=algorithm, **where) for name, algorithm in names.items()]


def text(command):
    """As one would type it."""
    return shlex.join(command)


SETTINGS = {"openmpi": openmpi, "mpich": mpich, "gloo": gloo}
